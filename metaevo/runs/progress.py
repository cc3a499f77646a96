"""A progress bar that names its stage and keeps its clock running between steps."""

import threading
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

# The logged values come first, because a narrow terminal cuts off the end.
_FORMAT = "{desc}: {percentage:.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class Progress(tqdm):
    """A `tqdm` bar that a thread redraws every second on a terminal.

    Compilation and the first block of generations take minutes without a step; the running clock
    shows that the program is alive. A file gets each percent of a stage once.
    """

    SECONDS = 1.0
    """between two refreshes"""

    def __init__(
        self, *arguments: Any, check_stop: Callable[[], None] = lambda: None, **options: Any
    ) -> None:
        """Take the arguments of `tqdm`; `desc` is the first stage.

        `check_stop` is called after every step; it raises an exception to stop.
        """
        self._check_stop, self._over = check_stop, threading.Event()
        self._clock: threading.Thread | None = None
        self._shown: tuple[str, int] | None = None
        options = {"bar_format": _FORMAT, "dynamic_ncols": True, **options}
        super().__init__(*arguments, **options)
        self._compiles = not self.disable
        if not self.disable and self._on_terminal():
            self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._clock.start()

    def stage(self, text: str) -> None:
        """Show the current stage: "compiling", "tuning huber, 3 of 4"."""
        if not self.disable and self.desc != text:
            if self._compiles and self.desc == "compiling":
                self._compiles = False
                self.unpause()  # the time left depends on the steps only
            self.set_description_str(text)

    def update(self, n: float | None = 1) -> None:
        """Advance; the first step, which compiles, does not count for the time left."""
        step, left = n or 0, (self.total or 0) - self.n
        if self._compiles and 0 < step < left:
            self._compiles = False
            self.unpause()
            self.n += step
            self.initial = self.last_print_n = self.n
            self.refresh()
        else:
            super().update(n)
        self._check_stop()

    def display(self, *arguments: Any, **options: Any) -> None:
        """Draw the bar; into a file only if it has a new stage or percent."""
        shown = self.desc, round(self.n / (self.total or 1) * 100)
        if self._on_terminal() or shown != self._shown:
            self._shown = shown
            super().display(*arguments, **options)

    def close(self) -> None:
        """Draw the bar for the last time."""
        self._over.set()
        if self._clock is not None and self._clock is not threading.current_thread():
            self._clock.join()
        super().close()

    def _on_terminal(self) -> bool:
        return bool(getattr(self.fp, "isatty", bool)())

    def _tick(self) -> None:
        while not self._over.wait(self.SECONDS):
            self.refresh()
