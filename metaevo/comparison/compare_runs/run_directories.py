"""Reading our own run directories, finished or half-written."""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metaevo.comparison.compare_runs.seed_run import (
    EVALUATION,
    SeedRun,
    Source,
    column,
)
from metaevo.config import files, flatten
from metaevo.config.files import read_json
from metaevo.config.plain import PlainDict
from metaevo.runs.latest import evolutions_in
from metaevo.runs.metrics import Records
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import Evaluation
from metaevo.statistics import FloatArray

_DEPTH = 3  # folders below the one named in which runs are looked for
_NOT_METRICS = {"kind", "frames", "seconds", "returns", "seeds"}
_OF_EPISODES = {"mean_return", "low", "high", "episodes", "diverged"}
"""Metrics of an update that are defined for a diverged agent, too."""
_DEFAULTS = {"update": "mean_return", "generation": "fitness_of_mean", "trial": "best_value"}
_TOTALS = {"generation": "evolution.generations", "trial": "sweep.trials"}


def find(path: Path) -> list[Path]:
    """The run directories at or below a path, in order; a run's own folders are not searched.

    Each evolution within a run counts as a run.
    """
    return sorted(_below(path, _DEPTH))


def _below(path: Path, depth: int) -> Iterator[Path]:
    if os.path.lexists(path / "config.yaml"):
        yield from evolutions_in(path) or [path]
    elif depth and os.path.isdir(path):
        try:
            children = list(path.iterdir())
        except OSError as error:
            raise files.unreadable(path, error) from None
        for child in children:
            if os.path.isdir(child) and not child.name.startswith("."):
                yield from _below(child, depth - 1)


def read(path: Path) -> Source:
    """The run in a directory.

    Raises:
        ConfigError: it holds no run, or a file is damaged.
    """
    run = RunDirectory.open(path)
    config = flatten(run.read_config()["config"])
    found = run.read_kinds(_DEFAULTS)
    kind = next((kind for kind in _DEFAULTS if found[kind]), None)
    records = found[kind or "update"]
    notes: list[str] = []
    seeds = _seeds(run, config, kind, records, notes) if kind else []
    seeds = _with_scores(seeds, run, config, evolved=kind == "generation")
    progress = _progress(config, kind, records)
    return Source(str(run.path), "run directory", seeds, _state(run), progress, notes)


def _seeds(
    run: RunDirectory,
    config: PlainDict,
    kind: str,
    records: Records,
    notes: list[str],
) -> list[SeedRun]:
    """A seed for every agent of a training, one for everything else."""
    number = max(1, int(config.get("seeds") or 1)) if kind == "update" else 1
    axes = {"steps": records.column("frames") / number, "seconds": records.column("seconds")}
    if kind != "update":
        axes["generations"] = records.column(kind)
    metrics = _metrics(kind, records)
    diverged = int(np.nan_to_num(records.column("diverged")).max())
    if kind == "update" and diverged:
        notes.append(
            f"{diverged} of its {number} agents diverged: metrics that are recorded as a mean over "
            "the others count as missing"
        )
        metrics = {
            name: values if name in _OF_EPISODES else np.full_like(values, np.nan)
            for name, values in metrics.items()
        }
    base = str(config.get("run.seed", 0))
    curves = {base: metrics}
    if kind == "update" and number == 1:
        curves = {f"{base}/0": metrics}
    elif kind == "update":
        returns = _returns(records)
        if not returns:
            notes.append("it has no curves of single seeds yet: their mean counts as one seed")
        curves = {f"{base}/{index}": {"mean_return": row} for index, row in enumerate(returns)}
        # Metrics recorded only as a mean over seeds form a separate seed.
        if rest := {name: metrics[name] for name in metrics if name != "mean_return" or not curves}:
            curves[f"{base}/mean"] = rest
    return [
        SeedRun(str(run.path), name, config, axes, values, _default(kind, values))
        for name, values in curves.items()
    ]


def _default(kind: str, metrics: dict[str, FloatArray]) -> str | None:
    name = _DEFAULTS[kind]
    if kind == "generation" and not np.isfinite(metrics.get(name, np.array([]))).any():
        return "fitness_mean"  # no generation was evaluated on validation keys
    return name if name in metrics else None


def _metrics(kind: str, records: Records) -> dict[str, FloatArray]:
    """Return the metrics of the records by name, usually only metrics with a finite value.

    A training keeps all metrics outside `_OF_EPISODES`: they are NaN if the agent diverged at once.
    """
    names = set().union(*records) - _NOT_METRICS - {kind}
    metrics = {name: records.column(name) for name in sorted(names)}
    if kind == "trial" and "value" in metrics:
        metrics["best_value"] = np.fmax.accumulate(metrics["value"])
    return {
        name: values
        for name, values in metrics.items()
        if np.isfinite(values).any() or (kind == "update" and name not in _OF_EPISODES)
    }


def _returns(records: Records) -> list[FloatArray]:
    """Return the curves [points] of single seeds, if the records hold them."""
    rows = [record.get("returns") for record in records]
    if all(isinstance(row, list) for row in rows) and len({len(row or []) for row in rows}) == 1:
        return list(np.stack([column(row) for row in rows if row is not None], axis=1))
    return []


def _with_scores(
    seeds: list[SeedRun], run: RunDirectory, config: PlainDict, *, evolved: bool
) -> list[SeedRun]:
    """Add the scores of evaluation.json; scored seeds without a curve follow.

    The default metric of the scores of an evolution is the score of the learned variant.
    """
    if not os.path.lexists(run.evaluation_path):
        return seeds
    result = read_json(run.evaluation_path, Evaluation)
    base = config.get("run.seed", 0)
    scores: dict[str, dict[str, float]] = {}
    for row in result["variants"]:
        for index, score in enumerate(_by_seed(row["scores"]).tolist()):
            scores.setdefault(f"{base}/{index}", {})[row["name"]] = score
    learned = result.get("learned")
    default = f"{EVALUATION}:{learned}" if evolved and learned else None
    joined = [replace(seed, scores=scores.pop(seed.seed, {})) for seed in seeds]
    return joined + [
        SeedRun(str(run.path), name, config, {}, {}, default, scores=each)
        for name, each in scores.items()
    ]


def _by_seed(scores: list[Any]) -> FloatArray:
    """Scores [seeds]; of several environments [seeds, environments], which are normalised."""
    rows = (column(row if isinstance(row, list) else [row]) for row in scores)
    return np.array([row.mean() for row in rows])


def _progress(config: PlainDict, kind: str | None, records: Records) -> float | None:
    """Return the finished share of the run, if the settings contain its length."""
    if kind == "update":
        total = config.get("train.total_timesteps")
        done = (records[-1].get("frames") or 0) / max(1, int(config.get("seeds") or 1))
    elif kind is not None:
        total, done = config.get(_TOTALS[kind]), len(records)
    else:
        return 0.0
    return min(1.0, done / total) if isinstance(total, int | float) and total > 0 else None


def _state(run: RunDirectory) -> str:
    if os.path.isfile(run.report_path):
        return "finished"
    return "still going on" if _is_locked(run.path / ".lock") else "stopped"


def _is_locked(path: Path) -> bool:
    """Whether another process writes to the run. The shared lock can only delay a start."""
    try:
        with files.open_file(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise files.unreadable(path, error) from None
    return False
