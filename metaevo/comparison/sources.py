"""Read runs from directories, globs and wandb, in any mixture."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.comparison import wandb_runs
from metaevo.comparison.recorded import KINDS, RecordedRun, numbers
from metaevo.config import ConfigError, files, flatten
from metaevo.config.checks import Measure, Text
from metaevo.judging.scores import Scores, UnfinishedError
from metaevo.parts.part import LEARNED
from metaevo.runs.finding import evolutions_in, is_finished, run_path, runs_below
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics import FloatArray


class _Variant(TypedDict):
    name: Text
    scores: list[Measure]


class _Evaluation(TypedDict):
    """evaluation.json."""

    variants: list[_Variant]


def read_all(names: Sequence[str], notes: list[str]) -> list[RecordedRun]:
    """Return the runs that have any numbers, and append to the notes.

    Of several runs with equal settings and random numbers, only the longest is kept.

    Raises:
        ConfigError: a name matches no run, or a run cannot be read.
    """
    runs: dict[str, RecordedRun] = {}
    for name in names:
        if name.startswith(wandb_runs.WANDB):
            runs |= {run.name: run for run in wandb_runs.read(name)}
        else:
            runs |= {str(path): read(path) for path in directories(name) if str(path) not in runs}
    longest: dict[object, RecordedRun] = {}
    for run in runs.values():
        key = run.seed, run.task, *sorted(run.settings.items())
        if len(run.rows) > len(longest.setdefault(key, run).rows):
            longest[key] = run
    found = []
    for run in runs.values():
        if run not in longest.values():
            reason = "left out, because it repeats another run (settings and seed)"
        elif not run.metrics:
            reason = "left out, because it has no records yet"
        else:
            found.append(run)
            reason = "" if run.is_finished else "is not finished"
        notes += [f"{run.name}: {reason}"] if reason else []
    return found


def directories(name: str) -> list[Path]:
    """Return the run directories that a name on the command line stands for.

    The evolutions within a run count as runs.
    """
    path = run_path(name)
    paths = [path] if os.path.isdir(path) else map(Path, sorted(glob.glob(name, recursive=True)))
    outer = [run for path in paths for run in runs_below(path)]
    if not outer:
        raise ConfigError(f"{name}: there is no run directory")
    return [run for path in outer for run in evolutions_in(path) or [path]]


def read(path: Path) -> RecordedRun:
    """Return the run in a directory, finished or half-written.

    Raises:
        ConfigError: if there is no run, or a file is damaged.
    """
    run = RunDirectory.open(path)
    records = [record for _, record in run.lines()]
    kinds = {record["kind"] for record in records}
    kind = next((kind for kind in KINDS if kind in kinds), "")
    return RecordedRun(
        str(run.path),
        flatten(run.read_config()["config"]),
        [record for record in records if record["kind"] == kind],
        kind,
        is_finished(run),
        _judged(run) if kind == "generation" else _evaluated(run),
    )


def _judged(run: RunDirectory) -> dict[str, FloatArray]:
    """Return the scores [1] of an evolution's contenders as in its report, the learned one first.

    Of one of several evolutions, which are judged together, only the learned one.
    """
    outer = run.path.parent
    is_member = run.path in evolutions_in(outer)
    path = RunDirectory(outer if is_member else run.path).scores_path
    if not os.path.lexists(path):
        return {}
    try:
        scores = Scores.load(path)
    except UnfinishedError:
        return {}
    names = {name: name for name in scores.contenders if scores.pooled}
    if is_member:
        own = f"{LEARNED} {run.path.name.replace('_', ' ')}"
        names = {LEARNED: own} if own in names else {}  # it began after they were judged
    return {name: np.array([scores.iqm(own).value]) for name, own in names.items()}


def _evaluated(run: RunDirectory) -> dict[str, FloatArray]:
    """Return the scores [seeds] of the variants in evaluation.json."""
    if not os.path.lexists(run.evaluation_path):
        return {}
    rows = files.read_json(run.evaluation_path, _Evaluation)["variants"]
    return {row["name"]: numbers(row["scores"]) for row in rows}
