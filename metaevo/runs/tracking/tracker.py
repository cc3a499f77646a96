"""The threads that send a run to its trackers while it continues."""

import sys
import threading
import time
from collections.abc import Sequence

from tqdm import tqdm

from metaevo.config import files
from metaevo.config.plain import PlainDict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import Mirror, lock_path

_POLL_SECONDS = 1.0
_ABANDONED_SECONDS = 10.0
_SILENT_SECONDS = 1.0
"""how long the end of a run waits without a message"""


class RunTracker:
    """Mirrors a run directory to any number of destinations, or to none.

    A service that fails costs one warning; the run continues.
    """

    def __init__(
        self, run: RunDirectory, to: Sequence[Destination], *, job_type: str, wait: float = 60.0
    ) -> None:
        """Start a thread for every destination.

        Args:
            run: a run directory with a config.yaml.
            to: the destinations.
            job_type: `train`, `evolution` or `sweep`.
            wait: most seconds that `finish` waits for the threads.
        """
        self._run, self._wait = run, wait
        if not run.tracked_path.exists():
            run.append_tracked({"run": run.path.name, "job_type": job_type})
        self._senders = [_Sender(run, each) for each in to]

    def log_child(
        self, name: str, job_type: str, config: PlainDict, records: list[PlainDict]
    ) -> None:
        """Announce a finished nested run: a trial of a sweep, a seed of a training.

        Args:
            name: unique in this run.
            job_type: `trial` or `seed`.
            config: the settings that differ from the enclosing run.
            records: metrics of the nested run.
        """
        entry = {"child": name, "job_type": job_type, "config": config, "records": records}
        self._run.append_tracked(entry)

    def finish(self) -> None:
        """Let the threads send the rest; after `wait` seconds, warn and give up."""
        deadline = time.monotonic() + self._wait
        for sender in self._senders:
            sender.over.set()
        for sender in self._senders:
            sender.join(min(_SILENT_SECONDS, self._wait))
            if sender.is_alive() and self._wait > _SILENT_SECONDS:
                label = sender.destination.label
                text = f"waiting up to {self._wait:.0f} s for {label} (run.track_wait)"
                print(text, file=sys.stderr)
            sender.join(max(0.0, deadline - time.monotonic()))
            sender.give_up()
        self._senders = []


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
