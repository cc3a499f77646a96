"""Every number of a comparison of runs, computed from their seeds."""

from collections.abc import Iterable, Mapping, Sequence
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

Scores = dict[SeedRun, float]
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
    scores = _scores(chosen, score, notes)
    best, origin = _optimum(scores, chosen, optimum)
    if len(best) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    scaled, top = _scale(scores, best, -1.0 if chosen.lower_is_better else 1.0)
    # High scaled scores are better. Scores on a single task are shown as recorded.
    sign = -1 if chosen.lower_is_better and len(best) == 1 else 1
    groups = [_result(each, scaled, top, sign) for each in grouping.group(list(scaled), keys)]
    # All tables, legends and plots have this order.
    groups.sort(key=lambda each: -sign * each.iqm.value)
    pairs, comparisons = _pairs(groups, scaled, sign, decidable=chosen.direction is not None)
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
    seeds = [seed for each in groups for seed in each.seeds]
    effects = _effects(seeds, scaled, sign) if len(seeds) == len(chosen.seeds) else []
    every = {seed: value for own in scores.values() for seed, value in own.items()}
    return RunComparison(
        found, options, chosen, every, groups, pairs, comparisons, effects, efficiency, best,
        origin, notes,
    )  # fmt: skip


# --- Scores -------------------------------------------------------------------------------------


def _scores(chosen: Selection, how: curves.Score, notes: list[str]) -> dict[str, Scores]:
    """Return the scores on each task; missing ones are the worst, or left out if none is worst.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    found: dict[str, Scores] = {}
    for task in sorted({seed.task for seed in chosen.seeds}):
        scores = {seed: chosen.score(seed, how) for seed in chosen.seeds if seed.task == task}
        known = {seed: value for seed, value in scores.items() if np.isfinite(value)}
        if not known:
            raise ConfigError(f"no run has a value of {chosen.metric} yet")
        if missing := len(scores) - len(known):
            on = f" on {task}" if task else ""
            fate = "they count as the worst one" if chosen.direction else "they are left out"
            notes.append(
                f"{missing} of {counted(len(scores), 'seed')}{on} have no score (they diverged, or "
                f"no episode finished); {fate}"
            )
        worst = (max if chosen.lower_is_better else min)(known.values())
        found[task] = dict.fromkeys(scores, worst) | known if chosen.direction else known
    return found


def _optimum(
    scores: Mapping[str, Scores], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str]:
    """Return the best possible score of every task, and its source."""
    if given is not None:
        return dict.fromkeys(scores, given), "given"
    is_return = chosen.is_evaluation or chosen.metric == "mean_return"
    if is_return and scores.keys() <= _BEST_POSSIBLE.keys():
        return {task: _BEST_POSSIBLE[task] for task in scores}, "the best possible return"
    best, name = (min, "lowest") if chosen.lower_is_better else (max, "highest")
    return {
        task: best(own.values()) for task, own in scores.items()
    }, f"the {name} score of any seed"


def _scale(
    scores: Mapping[str, Scores], optimum: Mapping[str, float], higher: float
) -> tuple[Scores, dict[str, float]]:
    """Return scaled scores, of which high ones are better, and the scaled optimum of every task."""
    scaled: Scores = {}
    top = {}
    for task, own in scores.items():
        values = higher * np.array(list(own.values()))
        start, width = 0.0, 1.0
        if len(scores) > 1:
            start, width = values.min(), np.ptp(values) or 1.0
        scaled |= zip(own, (values - start) / width, strict=True)
        top[task] = float((higher * optimum[task] - start) / width)
    return scaled, top


def _strata(seeds: Iterable[SeedRun], scaled: Scores) -> dict[str, FloatArray]:
    """Return the scaled scores of seeds by task."""
    found: dict[str, list[float]] = {}
    for seed in sorted(seeds, key=lambda seed: seed.task):
        found.setdefault(seed.task, []).append(scaled[seed])
    return {task: np.array(values) for task, values in found.items()}


def _result(group: Group, scaled: Scores, top: Mapping[str, float], sign: int) -> GroupResult:
    own = _strata(group.seeds, scaled)
    strata = list(own.values())
    variances = [part.var(ddof=1) if len(part) > 1 else 0.0 for part in strata]
    return GroupResult(
        group.label,
        group.seeds,
        _signed(statistics.estimate(strata), sign),
        sign * float(np.concatenate(strata).mean()),
        float(np.sqrt(np.mean(variances))),
        statistics.optimality_gap(strata, [top[task] for task in own]),
    )


def _signed(estimate: Estimate, sign: int) -> Estimate:
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


# --- Pairs and effects --------------------------------------------------------------------------

_Strata = Mapping[str, FloatArray]


def _common(first: _Strata, second: _Strata) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the scores of two groups on the tasks that they have in common."""
    tasks = [task for task in first if task in second]
    return [first[task] for task in tasks], [second[task] for task in tasks]


def _pairs(
    ranked: Sequence[GroupResult], scaled: Scores, sign: int, *, decidable: bool
) -> tuple[list[PairResult], int]:
    """Return the pairs to show, better group first, and the number of all pairs."""
    strata = {each.label: _strata(each.seeds, scaled) for each in ranked}
    pairs = [(a, b, *_common(strata[a], strata[b])) for a, b in combinations(strata, 2)]
    pairs = [pair for pair in pairs if pair[2]]
    adjusted = statistics.holm([statistics.rank_test(x, y) for _, _, x, y in pairs])
    shown = []
    for (first, second, x, y), p in zip(pairs, adjusted, strict=True):
        if len(ranked) > _ALL_PAIRS and first != ranked[0].label:
            continue
        found = statistics.compare_strata(x, y)
        shown.append(
            PairResult(
                first,
                second,
                (sum(map(len, x)), sum(map(len, y))),
                _signed(Estimate(found.difference, found.difference_interval), sign),
                Estimate(found.probability_of_improvement, found.probability_interval),
                found.p,
                p,
                statistics.verdict(found, p) if decidable else "undecided",
                statistics.needed_runs(x, y, alpha=0.05 / len(pairs)),
                min(1.0, statistics.smallest_p(x, y) * len(pairs)),
            )
        )
    return shown, len(pairs)


def _effects(seeds: Sequence[SeedRun], scaled: Scores, sign: int) -> list[EffectResult]:
    """Return one row for each value of each setting that differs."""
    seeds = sorted(seeds, key=lambda seed: seed.task)
    redundant = {key for keys in grouping.change_together(seeds) for key in keys[1:]}
    found = grouping.differing(seeds)
    shown = [key for key in found if key not in redundant][:_MOST_KEYS]
    rows: list[EffectResult] = []
    for key in shown:
        strata = {
            value: _strata([s for s in seeds if grouping.value_of(s, key) == value], scaled)
            for value in found[key][:_MOST_VALUES]
        }
        iqms = {value: statistics.estimate(list(own.values())) for value, own in strata.items()}
        best = max(strata, key=lambda value: iqms[value].value)
        for value, own in strata.items():
            difference, p = Estimate(np.nan, (np.nan, np.nan)), None
            common = _common(own, strata[best])
            if value != best and common[0]:
                compared = statistics.compare_strata(*common)
                difference = Estimate(compared.difference, compared.difference_interval)
                p = compared.p
            count = sum(map(len, own.values()))
            rows.append(
                EffectResult(
                    key, value, count, _signed(iqms[value], sign), _signed(difference, sign), p
                )
            )
    adjusted = iter(statistics.holm([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, p=next(adjusted)) for row in rows]
