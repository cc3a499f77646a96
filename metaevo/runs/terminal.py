"""A run and its terminal: a progress bar, and signals that stop the run."""

import atexit
import os
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from tqdm import tqdm

# The logged values come first, because a narrow terminal cuts off the end.
_FORMAT = "{desc}: {percentage:.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_NUMBERS = signal.SIGINT, signal.SIGTERM
# One signal can arrive twice: `timeout` sends it to its child and to the child's process group, and
# wrappers pass on the Ctrl-C that the terminal has already sent to everyone.
_SAME_SIGNAL_SECONDS = 0.5


class Progress(tqdm):
    """A `tqdm` bar that names its stage.

    On a terminal, a thread redraws it every second, as compilation and the first block take minutes
    without a step. A file gets each percent of a stage once.
    """

    SECONDS = 1.0
    """between two refreshes"""

    def __init__(
        self, *arguments: Any, check_stop: Callable[[], None] = lambda: None, **options: Any
    ) -> None:
        """Take the arguments of `tqdm`; `check_stop` may raise an exception after every step."""
        self._check_stop, self._over = check_stop, threading.Event()
        self._clock: threading.Thread | None = None
        self._shown: tuple[str, int] | None = None
        super().__init__(*arguments, **{"bar_format": _FORMAT, "dynamic_ncols": True, **options})
        if not self.disable and self._on_terminal():
            self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._clock.start()

    def stage(self, text: str) -> None:
        """Show the current stage: "compiling", "tuning huber, 3 of 4"."""
        if not self.disable and self.desc != text:
            if self.desc == "compiling":
                self.unpause()  # the time left depends on the steps only
            self.set_description_str(text)

    def update(self, n: float | None = 1) -> None:
        """Advance by some steps."""
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


class StopRequestedError(Exception):
    """The run received a signal to stop; everything finished so far is saved."""


def leave_at_once() -> None:
    """Let SIGINT and SIGTERM end a command without a traceback, before there is work to save."""
    for number in _NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as in a job that outlives its shell
            signal.signal(number, _end_command)
    # Python gives up its handlers while it clears its modules, when all is done and the exit code
    # is decided: a signal would replace that.
    atexit.register(_ignore)  # the first registered function is called last


def _end_command(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _ignore() -> None:
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


class StopOnSignal:
    """While active, the first SIGINT or SIGTERM only sets `requested`; a second stops immediately.

    To stop immediately, a command (see `leave_at_once`) ends the process. A library call raises
    KeyboardInterrupt in the main thread, as soon as a compiled call has returned.

    Python runs signal handlers between bytecodes of the main thread, which may be deep inside a
    compiled call for minutes. So a thread reads the signals from a pipe and answers right away.
    In other threads than the main one, signals are not handled.
    """

    def __init__(self, resume_hint: str = "") -> None:
        """Take instructions to continue, which are printed after a second signal."""
        self.requested: int | None = None
        self._resume_hint, self._is_leaving = resume_hint, False
        self._old_handlers: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM, 0 if there was no signal."""
        return 0 if self.requested is None else 128 + self.requested

    def check(self) -> None:
        """Raise `StopRequestedError` if a signal has arrived."""
        if self.requested:
            raise StopRequestedError

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _NUMBERS:
                self._old_handlers[number] = signal.signal(number, self._handle)
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._old_handlers:
            signal.set_wakeup_fd(self._old_fd)
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)
            os.close(self._writer)  # ends the thread
            self._thread.join()
            os.close(self._reader)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = self.requested or number
        if self._is_leaving:
            raise KeyboardInterrupt

    def _watch(self) -> None:
        first = None
        while received := os.read(self._reader, 1):
            if (number := received[0]) not in _NUMBERS or self._is_leaving:
                continue
            if first is None:
                self.requested, first = number, time.monotonic()
                message = "stopping after this block; press Ctrl-C again to leave at once"
                print(f"\n{message}", file=sys.stderr, flush=True)
            elif time.monotonic() - first > _SAME_SIGNAL_SECONDS:
                self._leave(number)

    def _leave(self, number: int) -> None:
        self._is_leaving = True
        if self._resume_hint:
            print(f"\nstopped at once; {self._resume_hint}", file=sys.stderr, flush=True)
        if _end_command in self._old_handlers.values():
            os._exit(128 + number)
        interrupt_main(signal.Signals(number))  # calls `_handle`, and writes to the pipe again
