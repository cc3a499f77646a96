"""What a run reports to its trackers. It costs a line in a file; others read it and send it on."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from metaevo.runs import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.backlog import missing
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.process import MirrorProcess, warn
from metaevo.runs.tracking.state import load_state

SYNC = "metaevo sync"
_SILENT_SECONDS = 1.0
"""of waiting at the end, before it is said what is waited for"""


class Tracker(Protocol):
    """Where metrics and files of a run are mirrored to; no service can make a method fail."""

    def log(self, record: dict[str, Any]) -> None:
        """Mirror a record: its numbers against the index of its kind."""

    def log_artifact(self, path: Path) -> None:
        """Mirror a file or a directory."""

    def child(self, name: str, job_type: str, config: dict[str, Any]) -> "Tracker":
        """Begin a nested run: a trial of a sweep, a seed of a training.

        Args:
            name: no other nested run of this one has it.
            job_type: what runs are grouped by, `trial` or `seed`.
            config: in what it differs from the run that it belongs to.
        """

    def finish(self) -> None:
        """Send what is left."""


class RunTracker:
    """Mirrors a run directory to any number of destinations, or to none.

    What is mirrored lies in the directory in any case: the records in metrics.jsonl, nested
    runs and announcements of artifacts in tracked.jsonl.
    """

    def __init__(
        self,
        run: RunDirectory,
        to: Sequence[Destination],
        *,
        job_type: str,
        wait: float = 60.0,
    ) -> None:
        """Start a process for every destination; they begin while the run continues.

        Args:
            run: whose config.yaml is written.
            to: the destinations.
            job_type: what the run is: `train`, `evolution`, `sweep`.
            wait: seconds that `finish` waits for the processes, at most.
        """
        self._run, self._wait = run, wait
        if not os.path.lexists(run.tracked_path):
            run.append_tracked({"run": run.path.name, "job_type": job_type})
        self._mirrors = [MirrorProcess(run.path, each) for each in to]

    def log(self, record: dict[str, Any]) -> None:
        """Do nothing: the record is in metrics.jsonl, from where it is mirrored."""

    def log_artifact(self, path: Path) -> None:
        """Let a file or a directory of the run be stored as it is when the mirrors come to it."""
        if not path.exists():
            warn(f"{path} cannot be stored by trackers: there is no such file")
            return
        try:
            name = path.absolute().relative_to(self._run.path.absolute()).as_posix()
            files.inside(self._run.path, name)
        except ValueError:
            warn(f"{path} cannot be stored by trackers: it lies outside of {self._run.path}")
            return
        self._run.append_tracked({"artifact": name})

    def child(self, name: str, job_type: str, config: dict[str, Any]) -> Tracker:
        """Begin a nested run, which is mirrored as a whole when it finishes."""
        return ChildTracker(self, self._run, name, job_type, config)

    def finish(self) -> None:
        """Wait for the mirrors, not too long, and say what has not arrived."""
        for mirror in self._mirrors:
            mirror.ask_to_finish()
        deadline = time.monotonic() + self._wait
        quiet = min(deadline, time.monotonic() + _SILENT_SECONDS)
        late = [mirror for mirror in self._mirrors if not mirror.join(until=quiet)]
        late = late if quiet < deadline else []
        for mirror in late:
            lacks = self._missing(mirror.destination) or "the end of the run"
            print(
                f"waiting up to {self._wait:.0f} s (run.track_wait) until "
                f"{mirror.destination.label} has {lacks}",
                file=sys.stderr,
            )
        for mirror in self._mirrors:
            mirror.join(until=deadline)
            mirror.end()
            if (rest := self._missing(mirror.destination)) is not None:
                warn(
                    f"{mirror.destination.label} is not known to have {rest}; "
                    f"send the rest later: {SYNC} {self._run.path}"
                )
            else:
                print(f"done: {mirror.destination.label} has everything", file=sys.stderr)
        self._mirrors = []

    def _missing(self, destination: Destination) -> str | None:
        try:
            state = load_state(self._run.path, destination.key)
            lacks = missing(self._run, state)
        except (OSError, ValueError) as error:  # of files that nobody but a mirror needs
            return f"everything ({error})"
        if lacks:
            return str(lacks)
        return None if state.status else "the end of the run"


class ChildTracker:
    """A nested run; a line of tracked.jsonl when it finishes, and nothing before."""

    def __init__(
        self, parent: Tracker, run: RunDirectory, name: str, job_type: str, config: dict[str, Any]
    ) -> None:
        self._parent, self._run = parent, run
        self._entry = {"child": name, "job_type": job_type, "config": config}
        self._records: list[dict[str, Any]] = []
        self._open = True

    def log(self, record: dict[str, Any]) -> None:
        """Keep a record for the line."""
        self._records.append(record)

    def log_artifact(self, path: Path) -> None:
        """Store a file with the run that this one belongs to."""
        self._parent.log_artifact(path)

    def child(self, name: str, job_type: str, config: dict[str, Any]) -> Tracker:
        """Begin another nested run of the same run, under both names."""
        return self._parent.child(f"{self._entry['child']}/{name}", job_type, config)

    def finish(self) -> None:
        """Write the line."""
        if self._open:
            self._run.append_tracked({**self._entry, "records": self._records})
        self._open = False
