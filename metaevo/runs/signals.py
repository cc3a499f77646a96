"""Stop a run by signals: the first one saves before stopping, a second one stops immediately."""

import atexit
import os
import signal
import sys
import threading
import time
from _thread import interrupt_main
from types import FrameType
from typing import Any, Self

_NUMBERS = signal.SIGINT, signal.SIGTERM
# One signal can arrive twice: `timeout` sends it to its child and to the child's process group, and
# wrappers pass on the Ctrl-C that the terminal has already sent to everyone.
_SAME_SIGNAL_SECONDS = 0.5


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
    compiled call for seconds. So a thread reads the signals from a pipe and answers right away.
    In other threads than the main one, signals are not handled.
    """

    def __init__(self, resume_hint: str = "") -> None:
        """Wait for a signal; `resume_hint` are instructions to continue, printed after a second."""
        self.requested: int | None = None
        self._resume_hint = resume_hint
        self._time = 0.0
        self._old_handlers: dict[int, Any] = {}
        self._is_leaving = False

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
        while received := os.read(self._reader, 64):
            for number in filter(_NUMBERS.__contains__, received):
                self._answer(number)

    def _answer(self, number: int) -> None:
        now = time.monotonic()
        if not self._time:
            self.requested, self._time = number, now
            message = "stopping after this block; press Ctrl-C again to leave at once"
            print(f"\n{message}", file=sys.stderr, flush=True)
        elif now - self._time > _SAME_SIGNAL_SECONDS:
            self._leave(number)

    def _leave(self, number: int) -> None:
        if self._is_leaving:  # `interrupt_main` arrives here, too
            return
        self._is_leaving = True
        if self._resume_hint:
            print(f"\nstopped at once; {self._resume_hint}", file=sys.stderr, flush=True)
        if _end_command in self._old_handlers.values():
            os._exit(128 + number)
        interrupt_main(signal.Signals(number))  # calls `_handle`
