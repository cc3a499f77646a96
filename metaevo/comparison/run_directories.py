"""Reading run directories, finished or half-written."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from metaevo.comparison.seed_run import EVALUATION, MEAN, VARIANT, SeedRun, seed_name, seed_run
from metaevo.config import files, flatten
from metaevo.config.plain import PlainDict
from metaevo.judging.scores import Scores, UnfinishedError
from metaevo.runs.latest import evolutions_in
from metaevo.runs.run_directory import Records, RunDirectory, numbers
from metaevo.runs.schema import Evaluation
from metaevo.statistics import FloatArray

_DEPTH = 3
"""levels of folders that are searched for runs"""
_NOT_AVERAGED = {
    "mean_return", "low", "high", "episodes", "diverged", "returns",
    "kind", "update", "frames", "seconds",
}  # fmt: skip
"""Keys of an update's record that a diverged agent has, too."""
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


def read(path: Path, notes: list[str]) -> list[SeedRun]:
    """Return the seeds of the run in a directory, and append to the notes.

    Raises:
        ConfigError: if there is no run, or a file is damaged.
    """
    run = RunDirectory.open(path)
    config = flatten(run.read_config()["config"])
    name, seed = str(run.path), seed_name(config, "0")
    if not os.path.isfile(run.report_path):
        notes.append(f"{name}: is not finished")
    records = run.read_kinds(_KINDS)
    seeds: list[SeedRun] = []
    if records["update"]:
        seeds = _agents(name, seed, config, records["update"], notes)
    elif records["generation"]:
        seeds = [seed_run(name, seed, config, records["generation"])]
    elif trials := records["trial"]:
        best = np.fmax.accumulate(trials.column("value")).tolist()
        rows = [row | {"best_value": value} for row, value in zip(trials, best, strict=True)]
        seeds = [seed_run(name, seed, config, rows)]
    return seeds + _held_out(run, seed, config, evolved=bool(records["generation"]))


def _agents(
    name: str, seed: str, config: PlainDict, records: Records, notes: list[str]
) -> list[SeedRun]:
    """Return a seed for every agent of a training, and one for metrics that are means over them."""
    count = int(config.get("seeds") or 1)
    mean = seed_run(name, f"{seed}/{MEAN}", config, records, count)
    if diverged := int(np.nan_to_num(records.column("diverged")).max()):
        notes.append(
            f"{name}: {diverged} of its {count} agents diverged: metrics that are recorded as a "
            "mean over the others count as missing"
        )
        missing = np.full(len(records), np.nan)
        averaged = set().union(*records) - _NOT_AVERAGED
        mean = replace(mean, metrics=mean.metrics | dict.fromkeys(averaged, missing))
    if count == 1:
        return [replace(mean, seed=f"{seed}/0")]
    agents = [
        replace(mean, seed=f"{seed}/{index}", metrics={"mean_return": row})
        for index, row in enumerate(_returns(records))
    ]
    return [*agents, mean]


def _returns(records: Records) -> list[FloatArray]:
    """Return the curves [points] of single seeds, if the records hold them."""
    rows = [record.get("returns") or [] for record in records]
    if len({len(row) for row in rows}) != 1:
        return []
    return list(np.stack([numbers(row) for row in rows], axis=1))


def _held_out(run: RunDirectory, seed: str, config: PlainDict, *, evolved: bool) -> list[SeedRun]:
    """Return a seed for each held-out score; its variant is a setting.

    By default, evolutions are compared by the scores of the learned contender, the first one.
    """
    variants = _judged(run) if evolved else _evaluated(run)
    default = f"{EVALUATION}:{next(iter(variants))}" if evolved and variants else None
    return [
        SeedRun(
            str(run.path),
            f"{seed}/{index}",
            config | {VARIANT: name},
            {},
            {(metric := f"{EVALUATION}:{name}"): np.array([score])},
            default if metric == default else None,
        )
        for name, scores in variants.items()
        for index, score in enumerate(scores)
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
