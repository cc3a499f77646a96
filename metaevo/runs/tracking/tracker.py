"""The threads that send a run to its trackers while it continues."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from metaevo.config import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import Mirror, lock_path

_POLL_SECONDS = 1.0
_ABANDONED_SECONDS = 10.0
_SILENT_SECONDS = 1.0
"""how long the end of a run waits without a message"""


@contextlib.contextmanager
def mirrored(run: RunDirectory, to: Sequence[Destination], *, wait: float) -> Iterator[None]:
    """Send a run directory to any number of destinations while it is written.

    A service that fails costs one warning; the run continues.

    Args:
        run: a run directory with a config.yaml.
        to: the destinations.
        wait: most seconds that the end waits for the rest to be sent.
    """
    senders = [_Sender(run, each) for each in to]
    try:
        yield
    finally:
        deadline = time.monotonic() + wait
        for sender in senders:
            sender.over.set()
        for sender in senders:
            sender.join(min(_SILENT_SECONDS, wait))
            if sender.is_alive() and wait > _SILENT_SECONDS:
                label = sender.destination.label
                print(f"waiting up to {wait:.0f} s for {label} (run.track_wait)", file=sys.stderr)
            sender.join(max(0.0, deadline - time.monotonic()))
            sender.give_up()


class _Sender(threading.Thread):
    """Keeps one destination up to date until `over` is set and the rest has been sent."""

    def __init__(self, run: RunDirectory, destination: Destination) -> None:
        super().__init__(name=f"tracking {destination.service}", daemon=True)
        self.over = threading.Event()
        self.destination, self._directory = destination, run
        self._has_failed = False
        self.start()

    def run(self) -> None:
        try:
            with files.locked(lock_path(self._directory.path, self.destination), wait=False):
                mirror = Mirror(self._directory, self.destination)
                while not self.over.is_set():
                    mirror.catch_up()
                    self.over.wait(_POLL_SECONDS)
                mirror.catch_up()
                mirror.finish()
        except BlockingIOError:
            self._fail("another process sends this run at the moment")
        except BaseException as error:  # no exception of a client may reach the run
            self._fail(str(error) or type(error).__name__)

    def give_up(self) -> None:
        """Warn if the destination is behind, and end wandb's process."""
        if self.is_alive():
            self._fail("has not received everything yet")
            if "metaevo.runs.tracking.wandb_run" in sys.modules:
                from metaevo.runs.tracking.wandb_run import abandon

                abandon()
                # A thread inside wandb's C++ code would abort this process at its end.
                self.join(_ABANDONED_SECONDS)

    def _fail(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            short = " ".join(reason.split())[:300]
            tqdm.write(
                f"warning: {self.destination.label}: {short}; the run continues, send the rest "
                f"later: metaevo sync {self._directory.path}",
                file=sys.stderr,
            )
