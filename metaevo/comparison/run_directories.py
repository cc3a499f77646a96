"""Reading run directories, finished or half-written."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from metaevo.comparison.seed_run import (
    EVALUATION,
    SeedRun,
    Source,
    seed_name,
    seed_run,
)
from metaevo.config import ConfigError, files, flatten
from metaevo.config.plain import PlainDict
from metaevo.judging.scores import Scores, UnfinishedError
from metaevo.runs.latest import evolutions_in
from metaevo.runs.run_directory import Records, RunDirectory, numbers
from metaevo.runs.schema import Evaluation
from metaevo.statistics import FloatArray

_DEPTH = 3
"""levels of folders that are searched for runs"""
_OF_EPISODES = {"mean_return", "low", "high", "episodes", "diverged"}
"""Metrics of an update that are defined for a diverged agent, too."""
_POSITIONS = {"kind", "update", "frames", "seconds", "returns"}
_KINDS = "update", "generation", "trial"


def find(path: Path, depth: int = _DEPTH) -> list[Path]:
    """Return the run directories at or below a path, in order.

    The evolutions within a run count as runs; other folders of a run are not searched.
    """
    if os.path.lexists(path / "config.yaml"):
        return evolutions_in(path) or [path]
    if not depth or not os.path.isdir(path):
        return []
    try:
        children = sorted(each for each in path.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise files.unreadable(path, error) from None
    return [run for child in children for run in find(child, depth - 1)]


def read(path: Path) -> Source:
    """Return the run in a directory.

    Raises:
        ConfigError: if there is no run, or a file is damaged.
    """
    run = RunDirectory.open(path)
    config = flatten(run.read_config()["config"])
    found = run.read_kinds(_KINDS)
    kind = next((kind for kind in _KINDS if found[kind]), None)
    notes: list[str] = []
    seeds: list[SeedRun] = []
    if kind is not None:
        records = found[kind]
        if kind == "trial":
            best = np.fmax.accumulate(records.column("value")).tolist()
            records = Records(row | {"best_value": b} for row, b in zip(records, best, strict=True))
        seed = seed_run(str(run.path), config, records, "0")
        if seed is not None:
            if "steps" not in seed.axes:
                raise ConfigError(f"{run.metrics_path}: no record has frames")
            seeds = _agents(seed, records, notes) if kind == "update" else [seed]
    seeds = _with_scores(seeds, run, config, evolved=kind == "generation")
    return Source(str(run.path), seeds, os.path.isfile(run.report_path), notes)


def _agents(run: SeedRun, records: Records, notes: list[str]) -> list[SeedRun]:
    """Return a seed for every agent of a training, and one for metrics that are means over them."""
    count = max(1, int(run.config.get("seeds") or 1))
    metrics = dict(run.metrics)
    diverged = int(np.nan_to_num(records.column("diverged")).max())
    if diverged:
        notes.append(
            f"{diverged} of its {count} agents diverged: metrics that are recorded as a mean over "
            "the others count as missing"
        )
        for key in set().union(*records) - _POSITIONS - _OF_EPISODES:
            metrics[key] = np.full(len(records), np.nan)
    curves = {"0": metrics}
    if count > 1:
        returns = _returns(records)
        if not returns:
            notes.append("it has no curves of single seeds yet: their mean counts as one seed")
        curves = {str(index): {"mean_return": row} for index, row in enumerate(returns)}
        if returns:
            metrics.pop("mean_return", None)
        if metrics:
            curves["mean"] = metrics
    return [
        replace(run, seed=f"{run.seed}/{index}", metrics=own,
                default="mean_return" if "mean_return" in own else None)
        for index, own in curves.items()
    ]  # fmt: skip


def _returns(records: Records) -> list[FloatArray]:
    """Return the curves [points] of single seeds, if the records hold them."""
    rows = [record.get("returns") for record in records]
    if all(isinstance(row, list) for row in rows) and len({len(row or []) for row in rows}) == 1:
        return list(np.stack([numbers(row) for row in rows if row is not None], axis=1))
    return []


def _with_scores(
    seeds: list[SeedRun], run: RunDirectory, config: PlainDict, *, evolved: bool
) -> list[SeedRun]:
    """Add the scores of evaluation.json or scores.npz as metrics; others' seeds follow.

    The default metric of the scores of an evolution is the score of the learned contender.
    """
    variants = _judged(run) if evolved else _evaluated(run)
    scores: dict[str, dict[str, FloatArray]] = {}
    for name, own in variants.items():
        for index, score in enumerate(own):
            metrics = scores.setdefault(f"{seed_name(config, '0')}/{index}", {})
            metrics[f"{EVALUATION}:{name}"] = score.reshape(1)
    default = f"{EVALUATION}:{next(iter(variants))}" if evolved and variants else None
    joined = [replace(seed, metrics=seed.metrics | scores.pop(seed.seed, {})) for seed in seeds]
    return joined + [
        SeedRun(str(run.path), name, config, {}, metrics, default)
        for name, metrics in scores.items()
    ]


def _judged(run: RunDirectory) -> dict[str, FloatArray]:
    """Return the held-out scores [seeds] of an evolution's contenders, the learned one first."""
    if not os.path.lexists(run.scores_path):
        return {}
    try:
        scores = Scores.load(run.scores_path)
    except UnfinishedError:
        return {}
    return {name: scores.held_out_of(name) for name in scores.contenders if scores.pooled}


def _evaluated(run: RunDirectory) -> dict[str, FloatArray]:
    """Return the scores [seeds] of the variants in evaluation.json."""
    if not os.path.lexists(run.evaluation_path):
        return {}
    rows = files.read_json(run.evaluation_path, Evaluation)["variants"]
    return {row["name"]: numbers(row["scores"]) for row in rows}
