"""Every number of a comparison, computed from the seeds of the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.directions import EVALUATION
from metaevo.comparison.compare_runs.efficiency import Efficiency, efficiency
from metaevo.comparison.compare_runs.grouping import (
    differing,
    group,
    plainness,
    value_of,
    with_variants,
)
from metaevo.comparison.compare_runs.scoring import Scored, best_score, comparable, score
from metaevo.comparison.compare_runs.seed_run import FloatArray, SeedRun, Source
from metaevo.comparison.compare_runs.selection import Selection, select
from metaevo.statistics import Contrast, Estimate, Paired, Verdict

_PAIRS_OF_ALL = 5
"""Up to so many groups every pair is shown, beyond it the best group against the others."""
_MOST_KEYS, _MOST_VALUES = 12, 12


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    metric: str | None = None
    score: curves.Score = "final"
    group_by: tuple[str, ...] | None = None
    align: str | None = None
    threshold: float | None = None
    optimum: float | None = None
    full_length: bool = False


@dataclass(frozen=True)
class GroupRow:
    """What the table of groups says of one."""

    label: str
    seeds: int
    iqm: Estimate
    mean: float
    std: float
    gap: Estimate
    by_task: dict[str, Estimate]


@dataclass(frozen=True)
class PairRow:
    """What is known of two groups."""

    first: str
    second: str
    seeds: tuple[int, int]
    contrast: Contrast
    adjusted_p: float
    verdict: Verdict
    needed: float
    smallest_p: float
    paired: Paired | None
    claimable: bool
    """whether no seed with an unknown score had to be left out"""


@dataclass(frozen=True)
class EffectRow:
    """The seeds with one value of a setting, whatever their other settings are."""

    key: str
    value: str
    seeds: int
    iqm: Estimate
    difference: Estimate | None
    """to the value with the highest IQM; None for that value itself"""
    p: float | None
    """adjusted over all rows of all settings"""


@dataclass(frozen=True)
class Analysis:
    """A whole comparison."""

    sources: list[Source]
    options: Options
    selection: Selection
    groups: list[Scored]
    """the best one first, as in `rows`"""
    rows: list[GroupRow]
    pairs: list[PairRow]
    comparisons: int
    """of which the p values are adjusted for: all pairs of groups, shown or not"""
    effects: list[EffectRow]
    efficiency: list[Efficiency]
    optimum: dict[str, float]
    optimum_is: str
    notes: list[str] = field(default_factory=list)


def analyse(sources: list[Source], options: Options, notes: Sequence[str] = ()) -> Analysis:
    """Compare the seeds of the sources.

    Raises:
        ConfigError: a run lacks the metric, a key to group by is unknown, nothing can be compared.
    """
    collected = list(notes)
    chosen = select(sources, options.metric, options.align, options.full_length, collected)
    seeds = chosen.seeds
    if chosen.metric == EVALUATION:
        seeds = with_variants(seeds, chosen.variant)
    groups = group(seeds, options.group_by)
    scored = score(groups, chosen, options.score, collected)
    optimum, optimum_is = best_score(scored, chosen, options.optimum)
    on_scale = comparable(optimum, scored, chosen.lower_is_better)
    rows = [_row(each, on_scale) for each in scored]
    # Best first: the order of all rows, legends and plots.
    order = sorted(range(len(rows)), key=lambda at: -scored[at].sign * rows[at].iqm.value)
    scored, rows = [scored[at] for at in order], [rows[at] for at in order]
    pairs, comparisons = _pairs(scored)
    return Analysis(
        sources, options, chosen, scored, rows, pairs, comparisons,
        _effects(scored),
        efficiency([each.group for each in scored], chosen, options.threshold),
        optimum, optimum_is, collected,
    )  # fmt: skip


def _row(scored: Scored, optimum: dict[str, float]) -> GroupRow:
    tasks = list(scored.strata)
    values = list(scored.strata.values())
    pooled = np.concatenate(values)
    variances = [each.var(ddof=1) if len(each) > 1 else 0.0 for each in values]
    sign = scored.sign
    return GroupRow(
        scored.label,
        scored.count,
        statistics.estimate(values),
        float(pooled.mean()),
        float(np.sqrt(np.mean(variances))),
        statistics.optimality_gap(
            [sign * each for each in values], [sign * optimum[task] for task in tasks]
        ),
        {task: statistics.estimate([each]) for task, each in scored.scores.items()},
    )


def _common(first: Scored, second: Scored) -> list[str]:
    return [task for task in first.strata if task in second.strata]


def _pairs(ranked: Sequence[Scored]) -> tuple[list[PairRow], int]:
    """The pairs that are shown, better first, with p values that allow for all of them."""
    every = [pair for pair in combinations(ranked, 2) if _common(*pair)]
    if not every:
        return [], 0
    p_values = [statistics.rank_test(*_both(*pair)) for pair in every]
    adjusted = statistics.holm(p_values)
    shown = [
        (pair, p)
        for pair, p in zip(every, adjusted, strict=True)
        if len(ranked) <= _PAIRS_OF_ALL or pair[0] is ranked[0]
    ]
    return [_pair(*pair, p, len(every)) for pair, p in shown], len(every)


def _both(first: Scored, second: Scored) -> tuple[list[FloatArray], list[FloatArray]]:
    tasks = _common(first, second)
    return [first.strata[task] for task in tasks], [second.strata[task] for task in tasks]


def _pair(first: Scored, second: Scored, adjusted: float, comparisons: int) -> PairRow:
    x, y = _both(first, second)
    result = _contrast(x, y, first.sign)
    claimable = first.complete and second.complete
    return PairRow(
        first.label,
        second.label,
        (sum(map(len, x)), sum(map(len, y))),
        result._replace(difference=_signed(result.difference, first.sign)),
        adjusted,
        statistics.verdict(result, adjusted) if claimable else "undecided",
        statistics.needed_runs(x, y, alpha=0.05 / comparisons),
        min(1.0, statistics.smallest_p(x, y) * comparisons),
        _paired(first, second),
        claimable,
    )


def _contrast(x: list[FloatArray], y: list[FloatArray], sign: int) -> Contrast:
    """Two groups beside each other; its difference is positive where x is better."""
    return statistics.contrast([sign * each for each in x], [sign * each for each in y])


def _signed(estimate: Estimate, sign: int) -> Estimate:
    """The same number of -1 times the scores, if that is the sign."""
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


def _paired(first: Scored, second: Scored) -> Paired | None:
    """The comparison of seeds with the same name on the same task, if there are two or more."""
    xs, ys = [], []
    for task in _common(first, second):
        of_first, of_second = _named(first, task), _named(second, task)
        names = [name for name in of_first if name in of_second]
        if names:
            xs.append(np.array([of_first[name] for name in names]))
            ys.append(np.array([of_second[name] for name in names]))
    return statistics.paired(xs, ys) if sum(map(len, xs)) > 1 else None


def _named(scored: Scored, task: str) -> dict[str, float]:
    """Scores by the seeds' names; a name that occurs twice in a group has no clear partner."""
    seeds = [seed for seed in scored.group.seeds if seed.task == task]
    names = [seed.seed for seed in seeds]
    return {
        seed.seed: float(value)
        for seed, value in zip(seeds, scored.strata[task], strict=True)
        if seed.has_own_seed and names.count(seed.seed) == 1
    }


def _effects(scored: Sequence[Scored]) -> list[EffectRow]:
    """The table of settings: for each that differs, the scores by its values."""
    if not all(each.complete for each in scored):
        return []  # nothing is claimed
    flat = [
        (seed, task, float(value))
        for each in scored
        for task, values in each.strata.items()
        for seed, value in zip(
            [seed for seed in each.group.seeds if seed.task == task], values, strict=True
        )
    ]
    seeds = [seed for seed, _, _ in flat]
    redundant = {key for keys in change_together(seeds) for key in keys[1:]}
    found = {key: values for key, values in differing(seeds).items() if key not in redundant}
    rows = []
    for key, values in list(found.items())[:_MOST_KEYS]:
        rows += _effect(key, values[:_MOST_VALUES], flat, scored[0].sign)
    known = [index for index, row in enumerate(rows) if row.p is not None]
    adjusted = statistics.holm([rows[index].p or 0.0 for index in known])
    for index, p in zip(known, adjusted, strict=True):
        rows[index] = EffectRow(**{**vars(rows[index]), "p": p})
    return rows


def _effect(
    key: str, values: Sequence[str], flat: Sequence[tuple[SeedRun, str, float]], sign: int
) -> list[EffectRow]:
    parts: dict[str, dict[str, FloatArray]] = {}
    for value in values:
        mine = [(task, s) for seed, task, s in flat if value_of(seed, key) == value]
        tasks = sorted({task for task, _ in mine})
        parts[value] = {task: np.array([s for t, s in mine if t == task]) for task in tasks}
    estimates = {value: statistics.estimate(list(part.values())) for value, part in parts.items()}
    best = max(values, key=lambda value: sign * estimates[value].value)
    rows = []
    for value in values:
        tasks = [task for task in parts[best] if task in parts[value]]
        other = None
        if value != best and tasks:
            other = _contrast(
                [parts[value][task] for task in tasks], [parts[best][task] for task in tasks], sign
            )
        count = sum(map(len, parts[value].values()))
        difference, p = (_signed(other.difference, sign), other.p) if other else (None, None)
        rows.append(EffectRow(key, value, count, estimates[value], difference, p))
    return rows


def change_together(seeds: Sequence[SeedRun]) -> list[list[str]]:
    """Settings that always change together: their effects cannot be separated.

    The plainest one comes first.
    """
    partitions: dict[tuple[int, ...], list[str]] = {}
    found = differing(seeds)
    for key in sorted(found, key=lambda key: plainness(key, found[key]), reverse=True):
        numbers: dict[str, int] = {}
        pattern = tuple(numbers.setdefault(value_of(s, key), len(numbers)) for s in seeds)
        partitions.setdefault(pattern, []).append(key)
    return [keys for keys in partitions.values() if len(keys) > 1]
