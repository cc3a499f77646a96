"""The life of a run, the same for every command: opened or resumed, saved, stopped, ended.

with living(KIND, settings, run_dir=run_dir, resume=resume) as run:
    run.start(resolved)
    with run.working():
        ...  # run.log, run.save, run.restore, run.check_stop
    return run.exit_code
"""

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from metaevo.config import to_dict
from metaevo.runs import checkpoint
from metaevo.runs.lifecycle import (
    check_same,
    end_on_device_error,
    open_run,
    resume_flags,
    start_tracker,
    way_out,
)
from metaevo.runs.resume import Resumed, restore_run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import SavedConfig
from metaevo.runs.settings import HasRun
from metaevo.runs.signals import PATIENCE, StopOnSignal, StopRequestedError
from metaevo.runs.tracking import RunTracker

S = TypeVar("S", bound=HasRun)


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


class Run(Generic[S]):
    """A run in progress; made by `living`."""

    def __init__(
        self,
        kind: Kind,
        settings: S,
        directory: RunDirectory,
        saved: SavedConfig | None,
        before: S | None,
        stop: StopOnSignal,
    ):
        """Bind the parts; `start` begins."""
        self.kind, self.settings, self.directory, self.stop = kind, settings, directory, stop
        self.saved, self.before = saved, before
        """config.yaml, and the settings in it, if the run is resumed"""
        self.resolved: dict[str, Any] = dict(saved["resolved"]) if saved is not None else {}
        """what was chosen or measured when the run began, and is kept when it is resumed"""
        self._tracker: RunTracker | None = None

    @property
    def exit_code(self) -> int:
        """0, or 130 / 143 after SIGINT / SIGTERM."""
        return self.stop.exit_code

    def start(self, resolved: dict[str, Any]) -> None:
        """Write config.yaml and begin to mirror the run.

        Args:
            resolved: what is kept beside the settings.
        """
        self.resolved = {**resolved, "run_id": self.resolved.get("run_id", uuid.uuid4().hex)}
        self.directory.write_config(to_dict(self.settings), self.resolved, self.saved)
        self._tracker = start_tracker(self.settings, self.directory, self.kind.job_type)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Say how to continue a run that a signal stops, and let the tracker finish."""
        try:
            yield
        except StopRequestedError:
            flags = resume_flags(self.directory, self.settings)
            print(f"stopped; continue with: {flags}", file=sys.stderr)
        finally:
            if self._tracker is not None:
                self._tracker.finish()

    def check_stop(self) -> None:
        """Stop here if a signal has arrived.

        Raises:
            StopRequestedError: which `working` catches.
        """
        self.stop.check()

    def save_as_it_goes(self) -> None:
        """From here on all results are kept at once, so a signal need not wait for a block."""
        self.stop.patience = PATIENCE

    def log(self, record: dict[str, Any]) -> None:
        """Add a record to metrics.jsonl and to what is mirrored."""
        self.directory.append_metrics(record)

    @property
    def tracker(self) -> RunTracker:
        """What the run is mirrored by, once it has started."""
        assert self._tracker is not None
        return self._tracker

    def log_evaluation(
        self, rows: Sequence[dict[str, Any]], frames: Sequence[int], seconds: float
    ) -> None:
        """Log how the run ends, in place of what an earlier end has logged.

        Args:
            rows: of evaluation.json, with `name`, `iqm` and `interval`.
            frames: environment steps behind each of them.
            seconds: of the run so far.
        """
        self.directory.truncate_metrics("evaluation", 0)
        for index, (row, count) in enumerate(zip(rows, frames, strict=True)):
            low, high = row["interval"]
            self.log(
                {
                    "kind": "evaluation",
                    "evaluation": index,
                    "frames": count,
                    "seconds": round(seconds, 3),
                    "name": row["name"],
                    "iqm": row["iqm"],
                    "low": low,
                    "high": high,
                }
            )

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

    def restore(
        self, template: Any, logged: Callable[[int], Iterable[int]] = range
    ) -> Resumed | None:
        """Return where a resumed run continues, and forget what was logged after it.

        Args:
            template: the structure, shapes and dtypes of what was saved.
            logged: from the index of a checkpoint to the indices of all records before it.

        Returns:
            None if the run is new, or was killed before anything was saved.

        Raises:
            ConfigError: if there are checkpoints, and none of them can be used.
        """
        if self.saved is None:
            return None
        restored = restore_run(
            self.directory, self.kind.record, template, self.resolved["run_id"], logged
        )
        self.forget_end()
        return restored

    def forget_end(self) -> None:
        """Remove report and evaluation of an earlier end: the run continues to another one."""
        self.directory.report_path.unlink(missing_ok=True)
        self.directory.evaluation_path.unlink(missing_ok=True)


@contextlib.contextmanager
def living(
    kind: Kind,
    settings: S,
    *,
    run_dir: Path | None,
    resume: bool,
    exclusively: bool = True,
    alone: bool = True,
) -> Iterator[Run[S]]:
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
    with directory.held(way_out(directory, settings), exclusively=exclusively):
        saved, before = _before(directory, settings, kind) if resume else (None, None)
        failing = end_on_device_error(directory, settings) if alone else contextlib.nullcontext()
        way_on = f"continue with: {resume_flags(directory, settings)}"
        with StopOnSignal(way_on) as stop, failing:
            yield Run(kind, settings, directory, saved, before, stop)


@contextlib.contextmanager
def living_inside(run: Run[S], settings: S, name: str) -> Iterator[Run[S]]:
    """Begin, or continue, a run in a folder of another one, with which it stops.

    Args:
        run: the other one; if it is new, the inner one must be, too.
        settings: of the inner run.
        name: of the folder.

    Raises:
        ConfigError: as `living`.
        DiskError: likewise.
    """
    path = run.directory.path / name
    resume = run.saved is not None and any(map(os.path.lexists, _begun(RunDirectory(path))))
    directory = open_run(path, name, resume=resume)
    with directory.held(way_out(run.directory, run.settings)):
        saved, before = _before(directory, settings, run.kind) if resume else (None, None)
        yield Run(run.kind, settings, directory, saved, before, run.stop)


def _begun(directory: RunDirectory) -> tuple[Path, ...]:
    """Files of which a run that has begun has one, though it may have lost another."""
    return directory.config_path, directory.metrics_path, directory.checkpoints


def _before(directory: RunDirectory, settings: S, kind: Kind) -> tuple[SavedConfig, S]:
    """Return config.yaml of a run that goes on, and the settings in it, which must be the same."""
    saved = directory.read_config()
    return saved, check_same(directory, saved["config"], settings, kind.harmless)
