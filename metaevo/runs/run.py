"""A run with a directory: opened or resumed, logged, saved, stopped and ended.

with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
    run.start(resolved)
    ...  # run.log, run.save, run.stop.check
return run.stop.exit_code
"""

import contextlib
import math
import os
import sys
import traceback
import uuid
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import jax
from annotated_types import Ge, Gt, Le

from metaevo.config import files, flatten, show, to_dict
from metaevo.config.checks import LIMIT
from metaevo.config.plain import RECORDED, DeviceError, DiskError, PlainDict, PlainMapping, names_in
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RECORDS, RunDirectory, SavedConfig
from metaevo.runs.terminal import StopOnSignal, StopRequestedError
from purerl.types import PyTree

MAX_SEED = 2**32 - 1
WIDER = ("run.seed",)
"""settings that are not sent to devices"""
SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""limits of the nonzero normal numbers in float32"""


@dataclass(frozen=True)
class RecordConfig:
    """Randomness, checkpoints and tracking of a run."""

    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0
    """all randomness of the run comes from it"""
    keep_checkpoints: Annotated[int, Gt(0)] = 3
    """number of the latest checkpoints to keep"""
    wandb: Literal["disabled", "offline", "online"] | None = None
    """log metrics and figures to Weights & Biases; null: WANDB_MODE, or disabled"""
    wandb_entity: str | None = None
    """the user or team there; null: WANDB_ENTITY, or your own"""
    wandb_project: str | None = None
    """the project there, and the experiment in MLflow; null: WANDB_PROJECT, or metaevo"""
    wandb_group: str | None = None
    """null: WANDB_RUN_GROUP, or for several evolutions of a run its directory"""
    wandb_tags: tuple[str, ...] = ()
    """empty: WANDB_TAGS"""
    wandb_job_type: str | None = None
    """null: WANDB_JOB_TYPE, or train, evolution, sweep"""
    mlflow: str | None = None
    """log them to MLflow: a tracking URI, or local for the database ./mlruns.db"""
    quick: bool = False
    """tiny sizes, to see that a run works; its numbers mean nothing; set by --quick"""

    def __post_init__(self) -> None:
        """Check the tracking URI."""
        if self.mlflow:
            from metaevo.runs.trackers import tracking_uri

            tracking_uri(self.mlflow)

    @property
    def wandb_mode(self) -> str:
        """Mode of wandb: disabled, offline or online."""
        mode = self.wandb or os.environ.get("WANDB_MODE")
        return mode if mode in ("offline", "online") else "disabled"


class HasRun:
    """Base of the dataclasses of settings with the section `run`."""

    __dataclass_fields__: ClassVar[PlainDict]
    run: RecordConfig

    def __post_init__(self) -> None:
        """Refuse numbers that devices cannot represent.

        Raises:
            ValueError: naming the first such number.
        """
        for key, values in flatten(to_dict(self)).items():
            for value in jax.tree.leaves(values):  # of lists, too
                if allowed := _allowed(key, value):
                    raise ValueError(f"{key} = {show(value)}: must be {allowed}")


def _allowed(key: str, value: Any) -> str:
    """Return what a number must be for devices; empty if it is."""
    if isinstance(value, int):
        is_small = abs(value) <= LIMIT or key in WIDER
        return "" if is_small else f"at most {LIMIT} in size"
    if not isinstance(value, float) or value == 0 or math.isinf(value):
        return ""
    is_normal = SMALLEST <= abs(value) <= LARGEST  # NaN is not
    return "" if is_normal else f"0 or {SMALLEST:.3g} to {LARGEST:.3g} in size (float32)"


def is_quick(settings: PlainDict) -> bool:
    """Whether settings, as plain data, are marked as quick."""
    return bool(settings.get("run", {}).get("quick"))


S = TypeVar("S", bound=HasRun)


@dataclass(frozen=True)
class Kind:
    """What distinguishes runs of evolution, training and sweeps."""

    name: str
    """folder in `runs/`"""
    job_type: str
    """by which trackers group runs"""
    harmless: tuple[str, ...]
    """prefixes of the settings that a resumed run may change, too"""


class Run(Generic[S]):
    """A run in progress; made by `open_run`."""

    def __init__(self, kind: Kind, settings: S, directory: RunDirectory, stop: StopOnSignal):
        """Begin a run, or, if its directory has a config.yaml, continue it."""
        self.kind, self.settings, self.directory, self.stop = kind, settings, directory, stop
        self.resolved: PlainDict = {}
        """values chosen or measured when the run began, which are kept when it is resumed"""
        self.saved: SavedConfig | None = None
        """content of config.yaml before it was resumed"""
        self.changed: list[str] = []
        """settings that differ from those before"""
        self._trackers: Any = None
        if os.path.lexists(directory.config_path):
            self.saved = directory.read_config()
            from metaevo.runs.resume import check_same

            self.changed = check_same(self.saved["config"], to_dict(settings), kind.harmless)
            self.resolved = dict(self.saved["resolved"])
            if names_in(to_dict(settings)):
                from metaevo.config import code

                code.refuse_changes(to_dict(settings), self.resolved)

    def is_over(self, *ending: str) -> bool:
        """Return whether it has its report, by the same settings with these beginnings."""
        has_report = self.saved is not None and self.directory.report_path.exists()
        return has_report and not any(key.startswith(ending) for key in self.changed)

    def restore(self, template: PyTree) -> tuple[PyTree, int, float] | None:
        """Return the tree, index and seconds that `save` got last, and drop the records after it.

        None if the run is new, or was killed before its first checkpoint.
        """
        if self.saved is None:
            return None
        from metaevo.runs.resume import restore

        return restore(self.directory, self.resolved["run_id"], template)

    def start(self, resolved: PlainDict, **layout: int) -> None:
        """Write config.yaml, with the `resolved` values to keep.

        `layout` are numbers of devices and of agents on them. Those at the beginning are kept, and
        a resumed run warns if it has others.
        """
        for name, size in layout.items():
            if (before := self.resolved.get(name, size)) != size:
                warnings.warn(
                    f"the run began with {name} = {before} and goes on with {size}: results agree "
                    "up to rounding, not bit for bit",
                    stacklevel=2,
                )
        settings = to_dict(self.settings)
        own = {
            "run_id": self.resolved.get("run_id", uuid.uuid4().hex),
            "job_type": self.kind.job_type,
        }
        digests = self.resolved.get(RECORDED, {})
        if names_in(settings):
            from metaevo.config import code

            digests = code.digests(settings) | digests
            code.keep(self.directory.path, settings)
        if digests:
            own[RECORDED] = digests
        self.resolved = {**layout, **resolved, **own}
        self.directory.write_config(settings, self.resolved, self.saved)
        config = self.settings.run
        if config.wandb_mode != "disabled" or config.mlflow:
            from metaevo.runs.trackers import Trackers

            self._trackers = Trackers(self.directory, config)

    def close(self) -> None:
        """Send the results to the trackers."""
        if self._trackers is not None:
            self._trackers.close()

    def log(self, record: PlainDict) -> None:
        """Add a record to metrics.jsonl, and hand it to the trackers."""
        record = self.directory.append_metrics(record)
        if self._trackers is not None:
            self._trackers.log(record)

    def log_evaluation(
        self, rows: Sequence[PlainMapping], frames: Sequence[int], seconds: float
    ) -> None:
        """Log rows with name, iqm and interval, and the environment steps behind each."""
        for index, (row, count) in enumerate(zip(rows, frames, strict=True)):
            record = {"kind": "evaluation", "evaluation": index, "frames": count}
            low, high = row["interval"]
            shown = {"name": row["name"], "iqm": row["iqm"], "low": low, "high": high}
            self.log({**record, "seconds": round(seconds, 3), **shown})

    def save(self, index: int, tree: PyTree, seconds: float) -> None:
        """Save a checkpoint of `index` generations or updates, done in `seconds` of work.

        The records before it have reached the disk by then.
        """
        about = {"run_id": self.resolved["run_id"], "seconds": seconds}
        records = self.directory.sync()
        about[RECORDS] = [len(records), zlib.crc32(records)]
        keep = self.settings.run.keep_checkpoints
        checkpoint.save(self.directory.checkpoints, index, tree, metadata=about, keep=keep)


@contextlib.contextmanager
def open_run(
    kind: Kind,
    settings: S,
    *,
    run_dir: Path | None,
    resume: bool,
    alone: bool = True,
) -> Iterator[Run[S]]:
    """Open and lock a run's directory until the run has ended, or has stopped after a signal.

    A new run that fails before its first record leaves no directory, so that it can be tried again.
    `alone` is whether this process may exit by itself; `commands.processes` ends several.

    Raises:
        ConfigError: if the directory cannot be used, or a resumed run has other settings.
        DeviceError: if a compiled program fails.
        DiskError: if the directory can no longer be written.
    """
    directory = RunDirectory.open(run_dir) if resume else RunDirectory.create(run_dir, kind.name)
    hint = f"continue with: {how_to_continue(directory)}"
    with (
        directory.locked(f"finished work is saved; {hint}"),
        StopOnSignal(hint) as stop,
        _ending(directory, hint, is_new=not resume, alone=alone),
        contextlib.closing(Run(kind, settings, directory, stop)) as run,
    ):
        yield run


@contextlib.contextmanager
def _ending(run: RunDirectory, hint: str, *, is_new: bool, alone: bool) -> Iterator[None]:
    """Handle what ends a run early; of a failed program, error.txt has the traceback."""
    try:
        yield
    except StopRequestedError:
        if not run.config_path.exists():
            run.discard()
            hint = "there was nothing to save yet"
        print(f"stopped; {hint}", file=sys.stderr)
    except jax.errors.JaxRuntimeError as error:  # a callback has raised, or memory has run out
        if not alone:
            raise
        path = run.path / "error.txt"
        files.write_atomic(path, traceback.format_exc())
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        reason = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
        text = f"the run has failed on the device: {reason} (all of it: {path}); {hint}"
        raise DeviceError(text) from None
    except Exception as error:
        if is_new and alone and not isinstance(error, OSError | DiskError):
            run.discard()
        raise


def how_to_continue(run: RunDirectory) -> str:
    """Return the flags that continue a run, and the argument for one from Python."""
    return f"--resume --run-dir {run.path} (in Python: resume=True)"
