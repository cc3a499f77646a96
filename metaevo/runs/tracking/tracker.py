"""What a run announces to its trackers, and the threads that send it while the run continues."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from metaevo.config import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import Mirror, lock_path, one_line

_POLL_SECONDS = 1.0
_ABANDONED_SECONDS = 10.0
_SILENT_SECONDS = 1.0
"""of waiting at the end before a message"""


def warn(message: str) -> None:
    """Print one line on stderr, above a progress bar if there is one."""
    tqdm.write(f"warning: {' '.join(message.split())}", file=sys.stderr)


class RunTracker:
    """Mirrors a run directory to any number of destinations, or to none.

    Everything that is mirrored is in the directory: records in metrics.jsonl, nested runs and
    announcements of artifacts in tracked.jsonl. A service that fails costs one warning.
    """

    def __init__(
        self, run: RunDirectory, to: Sequence[Destination], *, job_type: str, wait: float = 60.0
    ) -> None:
        """Start a thread for every destination.

        Args:
            run: a run directory that has its config.yaml.
            to: the destinations.
            job_type: `train`, `evolution` or `sweep`.
            wait: seconds that `finish` waits for the threads, at most.
        """
        self._run, self._wait = run, wait
        if not os.path.lexists(run.tracked_path):
            run.append_tracked({"run": run.path.name, "job_type": job_type})
        self._senders = [_Sender(run, each) for each in to]

    def log_artifact(self, path: Path) -> None:
        """Announce a file or folder of the run, which is stored as it is when it is sent."""
        try:
            name = path.absolute().relative_to(self._run.path.absolute()).as_posix()
            files.inside(self._run.path, name)
        except ValueError:
            warn(f"{path} cannot be stored by trackers: it lies outside of {self._run.path}")
            return
        self._run.append_tracked({"artifact": name})

    def log_child(
        self, name: str, job_type: str, config: dict[str, Any], records: list[dict[str, Any]]
    ) -> None:
        """Announce a finished nested run: a trial of a sweep, a seed of a training.

        Args:
            name: unique in this run.
            job_type: `trial` or `seed`.
            config: the settings that differ from those of the run.
            records: its metrics.
        """
        entry = {"child": name, "job_type": job_type, "config": config, "records": records}
        self._run.append_tracked(entry)

    def finish(self) -> None:
        """Wait for the threads for a limited time, and print the destinations that are behind."""
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
                mirror = Mirror(self._directory, self.destination, results=False)
                while not self.over.is_set():
                    mirror.catch_up()
                    self.over.wait(_POLL_SECONDS)
                mirror.catch_up()
                mirror.finish()
        except BlockingIOError:
            self._fail("another process sends this run at the moment")
        except BaseException as error:  # whatever a client raises must not reach the run
            self._fail(one_line(error))

    def give_up(self) -> None:
        """Warn if the destination is behind, and end wandb's process."""
        if self.is_alive():
            self._fail("does not have everything yet")
            if self.destination.service == "wandb" and "wandb" in sys.modules:
                from metaevo.runs.tracking.wandb_run import abandon

                abandon()
                # A thread inside wandb's C++ code would abort this process at its end.
                self.join(_ABANDONED_SECONDS)
        elif not self._has_failed:
            print(f"done: {self.destination.label} has everything", file=sys.stderr)

    def _fail(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            warn(
                f"{self.destination.label}: {reason}; the run continues, send the rest later: "
                f"metaevo sync {self._directory.path}"
            )
