"""A progress bar that names its stage and keeps its clock running between steps."""

import threading
import time
from collections.abc import MutableMapping
from typing import Any

from tqdm import tqdm

COMPILING = "compiling"
"""The stage that does not count for the estimate of the time left."""


class Progress(tqdm):
    """A `tqdm` bar that a thread redraws every second on a terminal.

    Compilation and the first block of generations take minutes without a step; the running clock
    shows that the program is alive. The time left is estimated from the steps after the first
    update or, if the bar began with the stage "compiling", after that stage, so that compilation
    does not count.
    """

    SECONDS = 1.0
    """between two refreshes"""
    _now = staticmethod(time.monotonic)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of `tqdm`; `desc` is the first stage."""
        # The logged values come first, because a narrow terminal cuts off the end.
        options.setdefault("bar_format", FORMAT)
        options.setdefault("dynamic_ncols", True)
        self._over = threading.Event()
        self._clock: threading.Thread | None = None
        self._counts_from: tuple[float, float] | None = None
        super().__init__(*arguments, **options)
        if not self.disable and getattr(self.fp, "isatty", bool)():
            self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._clock.start()

    def stage(self, text: str) -> None:
        """Show the current stage: "compiling", "tuning huber, 3 of 4"."""
        if self.desc != text:
            if str(self.desc).startswith(COMPILING):
                self._count_from_here()
            self.set_description_str(text)

    def update(self, n: float | None = 1) -> bool | None:
        """Count `n` more steps."""
        result = super().update(n)
        if self._counts_from is None:
            self._count_from_here()
        return result

    def _count_from_here(self) -> None:
        if not self.disable:
            self._counts_from = (self._now(), self.n)

    @property
    def format_dict(self) -> MutableMapping[str, Any]:
        """The values of `bar_format`; a rate of 0 means that the time left is not known yet."""
        values = super().format_dict
        since, steps = getattr(self, "_counts_from", None) or (None, 0)
        if since is not None:
            seconds = self._now() - since
            values["rate"] = (self.n - steps) / seconds if seconds > 0 else 0.0
        elif not self.disable:
            values["rate"] = 0.0
        return values

    def close(self) -> None:
        """Draw the bar for the last time."""
        self._over.set()
        if self._clock is not None and self._clock is not threading.current_thread():
            self._clock.join()
        super().close()

    def _tick(self) -> None:
        while not self._over.wait(self.SECONDS):
            self.refresh()


FORMAT = "{desc}: {percentage:.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
"""Shorter than tqdm's own, so that the numbers that matter fit into 80 columns."""
