"""Every number of a comparison of runs, computed from their seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves, grouping, sources
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.results import (
    EffectResult,
    GroupResult,
    Options,
    PairResult,
    RunComparison,
)
from metaevo.comparison.compare_runs.seed_run import SeedRun
from metaevo.comparison.compare_runs.selection import Selection, select
from metaevo.config import ConfigError, show
from metaevo.config.plain import listed
from metaevo.reports.numbers import counted
from metaevo.statistics import Estimate, FloatArray

_ALL_PAIRS = 5
"""With more groups, only the best group is compared with the others."""
_MOST_KEYS, _MOST_VALUES = 12, 12
_BEST_POSSIBLE = {"CartPole-v1": 500.0, "Catch-bsuite": 1.0, "FourRooms-misc": 1.0}
"""Maximum mean returns of environments with their default parameters."""


def compare_runs(
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    score: curves.Score = "final",
    group_by: Sequence[str] | None = None,
    align: str | None = None,
    threshold: float | None = None,
    optimum: float | None = None,
    full_length: bool = False,
) -> RunComparison:
    """Compare recorded runs by the settings in which they differ.

    Examples:
        >>> found = metaevo.compare_runs(["runs/ppo", "runs/ppo_fast"])
        >>> found.pairs[0].verdict
        >>> pandas.DataFrame(found.table("groups"))

    Args:
        runs: one or several run directories, parent folders, globs,
            `wandb:ENTITY/PROJECT[/RUN]`, `wandb:DIRECTORY`, `mlflow:URI#EXPERIMENT`.
        metric: a name in the records, or `evaluation[:VARIANT]` for scores of evaluation.json; by
            default the mean return, the fitness of the mean, or the best value of a sweep.
        score: how a curve is reduced to one number: the mean of its last tenth ("final") or of the
            whole curve ("area"), or its best point ("best").
        group_by: settings that form the groups; by default all that differ.
        align: "steps", "generations" or "seconds".
        threshold: score for the steps to threshold; defaults to 90% of the way to the top of the
            best curve.
        optimum: the score that the optimality gap is measured from.
        full_length: score every run at its own end instead of the last common point.

    Raises:
        ConfigError: if a run cannot be read, lacks the metric, or no run can be compared.
    """
    if score not in (known := get_args(curves.Score)):
        raise ConfigError(f"score = {show(score)}: must be one of {', '.join(known)}")
    keys = None if group_by is None else tuple(listed(group_by))
    options = Options(metric, score, keys, align, threshold, optimum, full_length)
    found, notes = sources.read_all([str(run) for run in listed(runs)])
    chosen = select(found, metric, align, full_length, notes)
    scores = {seed: chosen.score(seed, score) for seed in chosen.seeds}
    _note_missing(scores, chosen, notes)
    if chosen.direction is None:  # a missing score has no worst value to count as
        scores = {seed: value for seed, value in scores.items() if np.isfinite(value)}
    best, origin = _optimum(scores, chosen, optimum)
    if len(best) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    # High scaled scores are better. Scores on a single task are shown as recorded.
    sign = -1 if chosen.lower_is_better and len(best) == 1 else 1
    groups = _group_results(grouping.group(list(scores), keys), scores, chosen, best, sign)
    pairs, comparisons = _pairs(groups, sign, decidable=chosen.direction is not None)
    efficiency = [
        row
        for task in sorted(chosen.ends)
        for row in curves.efficiency(
            task,
            {each.label: list(map(chosen.curve, each.on(task))) for each in groups},
            threshold,
            lower_is_better=chosen.lower_is_better,
        )
    ]
    effects = _effects(groups, sign) if len(scores) == len(chosen.seeds) else []
    return RunComparison(
        found, options, chosen, groups, pairs, comparisons, effects, efficiency, best, origin, notes
    )


# --- Scores -------------------------------------------------------------------------------------


def _note_missing(scores: Mapping[SeedRun, float], chosen: Selection, notes: list[str]) -> None:
    """Append a note for every task with missing scores.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    for task in sorted({seed.task for seed in scores}):
        values = [value for seed, value in scores.items() if seed.task == task]
        missing = int((~np.isfinite(values)).sum())
        if missing == len(values):
            raise ConfigError(f"no run has a value of {chosen.metric} yet")
        if missing:
            on = f" on {task}" if task else ""
            fate = "they count as the worst one" if chosen.direction else "they are left out"
            notes.append(
                f"{missing} of {counted(len(values), 'seed')}{on} have no score (they diverged, or "
                f"no episode finished); {fate}"
            )


def _optimum(
    scores: Mapping[SeedRun, float], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str]:
    """Return the best possible score of every task, and its source."""
    tasks = sorted({seed.task for seed in scores})
    if given is not None:
        return dict.fromkeys(tasks, given), "given"
    is_return = chosen.is_evaluation or chosen.metric == "mean_return"
    if is_return and set(tasks) <= set(_BEST_POSSIBLE):
        return {task: _BEST_POSSIBLE[task] for task in tasks}, "the best possible return"
    best, name = (np.nanmin, "lowest") if chosen.lower_is_better else (np.nanmax, "highest")
    found = {
        task: float(best([value for seed, value in scores.items() if seed.task == task]))
        for task in tasks
    }
    return found, f"the {name} score of any seed"


def _group_results(
    groups: Sequence[Group],
    known: Mapping[SeedRun, float],
    chosen: Selection,
    optimum: Mapping[str, float],
    sign: int,
) -> list[GroupResult]:
    """Return the groups with their statistics, best first."""
    higher = -1.0 if chosen.lower_is_better else 1.0
    scores: dict[str, dict[str, FloatArray]] = {each.label: {} for each in groups}
    scaled: dict[str, dict[str, FloatArray]] = {each.label: {} for each in groups}
    best: dict[str, float] = {}
    for task in optimum:
        seeds = {each.label: each.on(task) for each in groups}
        oriented = statistics.fill_missing(
            {
                label: higher * np.array([known[seed] for seed in own])
                for label, own in seeds.items()
                if own
            }
        )
        start, width = 0.0, 1.0
        if len(optimum) > 1:
            every = np.concatenate(list(oriented.values()))
            start, width = every.min(), np.ptp(every) or 1.0
        for label, values in oriented.items():
            scores[label][task] = higher * values
            scaled[label][task] = (values - start) / width
        best[task] = float((higher * optimum[task] - start) / width)
    results = []
    for each in groups:
        own = scaled[each.label]
        strata = list(own.values())
        variances = [part.var(ddof=1) if len(part) > 1 else 0.0 for part in strata]
        results.append(
            GroupResult(
                each.label,
                each.seeds,
                scores[each.label],
                own,
                _signed(statistics.estimate(strata), sign),
                sign * float(np.concatenate(strata).mean()),
                float(np.sqrt(np.mean(variances))),
                statistics.optimality_gap(strata, [best[task] for task in own]),
            )
        )
    # All tables, legends and plots have this order.
    return sorted(results, key=lambda each: -sign * each.iqm.value)


def _signed(estimate: Estimate, sign: int) -> Estimate:
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


# --- Pairs and effects --------------------------------------------------------------------------


def _pairs(
    ranked: Sequence[GroupResult], sign: int, *, decidable: bool
) -> tuple[list[PairResult], int]:
    """Return the pairs to show, better group first, and the number of all pairs."""
    every = [pair for pair in combinations(ranked, 2) if _common(*pair)[0]]
    adjusted = statistics.holm([statistics.rank_test(*_common(*pair)) for pair in every])
    shown = []
    for (first, second), p in zip(every, adjusted, strict=True):
        if len(ranked) > _ALL_PAIRS and first is not ranked[0]:
            continue
        x, y = _common(first, second)
        contrast = statistics.contrast(x, y)
        shown.append(
            PairResult(
                first.label,
                second.label,
                (sum(map(len, x)), sum(map(len, y))),
                contrast._replace(difference=_signed(contrast.difference, sign)),
                p,
                statistics.verdict(contrast, p) if decidable else "undecided",
                statistics.needed_runs(x, y, alpha=0.05 / len(every)),
                min(1.0, statistics.smallest_p(x, y) * len(every)),
            )
        )
    return shown, len(every)


def _common(first: GroupResult, second: GroupResult) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the scaled scores on the tasks that two groups have in common."""
    tasks = [task for task in first.scaled if task in second.scaled]
    return [first.scaled[task] for task in tasks], [second.scaled[task] for task in tasks]


def _effects(groups: Sequence[GroupResult], sign: int) -> list[EffectResult]:
    """Return one row for each value of each setting that differs."""
    scaled = {seed: score for each in groups for seed, _, score in each.by_seed()}
    seeds = sorted(scaled, key=lambda seed: seed.task)
    redundant = {key for keys in grouping.change_together(seeds) for key in keys[1:]}
    found = grouping.differing(seeds)
    shown = [key for key in found if key not in redundant][:_MOST_KEYS]
    rows: list[EffectResult] = []
    for key in shown:
        parts: dict[str, dict[str, list[float]]] = {v: {} for v in found[key][:_MOST_VALUES]}
        for seed in seeds:
            if (value := grouping.value_of(seed, key)) in parts:
                parts[value].setdefault(seed.task, []).append(scaled[seed])
        rows += _effect(key, parts, sign)
    adjusted = iter(statistics.holm([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, p=next(adjusted)) for row in rows]


def _effect(
    key: str, parts: Mapping[str, Mapping[str, list[float]]], sign: int
) -> list[EffectResult]:
    """Return the rows of a setting, given its scaled scores by value and task."""
    estimates = {value: statistics.estimate(list(part.values())) for value, part in parts.items()}
    best = max(parts, key=lambda value: estimates[value].value)
    rows = []
    for value, part in parts.items():
        tasks = [task for task in parts[best] if task in part]
        difference, p = None, None
        if value != best and tasks:
            other = statistics.contrast(*([side[t] for t in tasks] for side in (part, parts[best])))
            difference, p = _signed(other.difference, sign), other.p
        count = sum(map(len, part.values()))
        rows.append(EffectResult(key, value, count, _signed(estimates[value], sign), difference, p))
    return rows
