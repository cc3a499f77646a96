"""The life of a run, the same for every command: opened or resumed, saved, stopped, ended.

    with living(KIND, settings, run_dir=run_dir, resume=resume) as run:
        run.start(resolved)
        with run.working():
            ...  # run.log, run.save, run.restore, run.check_stop
    return run.exit_code
"""

import contextlib
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config import to_dict
from metaevo.parallel import devices
from metaevo.runs import checkpoint
from metaevo.runs.lifecycle import (
    StopRequestedError,
    check_same,
    end_on_device_error,
    open_run,
    start_tracker,
    way_out,
)
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.signals import StopOnSignal
from metaevo.runs.tracking import RunTracker


@dataclass(frozen=True)
class Kind:
    """What sets one kind of run apart from the others."""

    name: str
    """of its folder in `runs/`"""
    job_type: str
    """by which trackers group runs"""
    record: str
    """of the metrics that checkpoints cover: generation, update or trial"""
    harmless: tuple[str, ...]
    """beginnings of the settings that a resumed run may change"""


class Restored(NamedTuple):
    """Where a resumed run goes on."""

    tree: Any
    """NumPy arrays in the structure of the template"""
    index: int
    """generations or updates done"""
    seconds: float
    """that they took"""


class Run:
    """A run that is going on; made by `living`."""

    def __init__(
        self,
        kind: Kind,
        settings: Any,
        directory: RunDirectory,
        saved: dict[str, Any] | None,
        stop: StopOnSignal,
    ):
        """Bind the parts; `start` begins."""
        self.kind, self.settings, self.directory, self.stop = kind, settings, directory, stop
        self.saved = saved
        """config.yaml, if the run is resumed"""
        self.resolved: dict[str, Any] = dict(saved["resolved"]) if saved is not None else {}
        """what was chosen or measured when the run began, and is kept when it is resumed"""
        self.tracker = RunTracker(None, [], job_type=kind.job_type)

    @property
    def exit_code(self) -> int:
        """0, or 130 / 143 after SIGINT / SIGTERM."""
        return self.stop.exit_code

    def start(self, resolved: dict[str, Any]) -> None:
        """Write config.yaml and begin to mirror the run.

        Args:
            resolved: what is to be kept beside the settings.
        """
        self.resolved = {**resolved, "run_id": self.resolved.get("run_id", uuid.uuid4().hex)}
        self.directory.report_path.unlink(missing_ok=True)  # both are written anew at the end
        self.directory.evaluation_path.unlink(missing_ok=True)
        self.directory.write_config(
            to_dict(self.settings), self.resolved, devices.describe(), self.saved
        )
        self.tracker = start_tracker(self.settings, self.directory, self.kind.job_type)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Say how to continue a run that a signal stops, and let the tracker finish."""
        try:
            yield
        except StopRequestedError:
            print(
                f"stopped; continue with: --resume --run-dir {self.directory.path}",
                file=sys.stderr,
            )
        finally:
            self.tracker.finish()

    def check_stop(self) -> None:
        """Leave what is going on if a signal has arrived.

        Raises:
            StopRequestedError: which `working` catches.
        """
        if self.stop.requested:
            raise StopRequestedError

    def log(self, record: dict[str, Any]) -> None:
        """Add a record to metrics.jsonl and to what is mirrored."""
        self.directory.append_metrics(record)
        self.tracker.log(record)

    def save(self, index: int, tree: Any, seconds: float) -> None:
        """Save a checkpoint; what was logged before it survives a power failure.

        Args:
            index: generations or updates done.
            tree: of arrays.
            seconds: that they took.
        """
        self.directory.sync()
        checkpoint.save(
            self.directory.checkpoints,
            index,
            tree,
            metadata={"run_id": self.resolved["run_id"], "seconds": seconds},
            keep=self.settings.run.keep_checkpoints,
        )

    def restore(self, template: Any) -> Restored | None:
        """Return the last checkpoint and forget what was logged after it; None to begin anew.

        Raises:
            CheckpointError: if there are checkpoints, and none of them can be used.
        """
        directory, record = self.directory, self.kind.record
        if self.saved is None:
            return None
        if checkpoint.is_empty(directory.checkpoints) and not directory.read_metrics(record):
            return None  # killed before anything was saved
        found = checkpoint.restore(
            directory.checkpoints, template, expected={"run_id": self.resolved["run_id"]}
        )
        directory.truncate_metrics(record, found.index - 1)
        return Restored(found.tree, found.index, float(found.metadata["seconds"]))


@contextlib.contextmanager
def living(
    kind: Kind,
    settings: Any,
    *,
    run_dir: Path | None,
    resume: bool,
    exclusively: bool = True,
    alone: bool = True,
) -> Iterator[Run]:
    """Open a run's directory, lock it, and answer signals and failing devices until the end.

    Args:
        kind: of run.
        settings: of the run.
        run_dir: its directory; by default a new one under `runs/`.
        resume: continue the run there.
        exclusively: keep other processes from writing there.
        alone: whether this process may end by itself; of several, `hosts.together` ends them.

    Raises:
        ConfigError: if the directory cannot be used, or the settings are not those of its run.
        DiskError: if it can no longer be written.
    """
    directory = open_run(run_dir, kind.name, resume=resume)
    with directory.held(way_out(directory), exclusively=exclusively):
        saved = directory.read_config() if resume else None
        if saved is not None:
            check_same(saved["config"], settings, kind.harmless)
        failing = end_on_device_error(directory) if alone else contextlib.nullcontext()
        with StopOnSignal() as stop, failing:
            yield Run(kind, settings, directory, saved, stop)
