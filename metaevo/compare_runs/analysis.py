"""Every number of a comparison, computed from the seeds of the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from metaevo.compare_runs import curves
from metaevo.compare_runs.efficiency import Efficiency, efficiency
from metaevo.compare_runs.grouping import (
    Group,
    differing,
    group,
    plainness,
    value_of,
    with_variants,
)
from metaevo.compare_runs.seed_run import FloatArray, SeedRun, Source
from metaevo.compare_runs.selection import Selection, select
from metaevo.config import ConfigError
from metaevo.statistics import strata
from metaevo.statistics.strata import Contrast, Estimate, Paired
from metaevo.statistics.table import Verdict

_PAIRS_OF_ALL = 5
"""Up to so many groups every pair is shown, beyond it the best group against the others."""
_MOST_KEYS, _MOST_VALUES = 12, 12
_BEST_POSSIBLE = {"CartPole-v1": 500.0, "Catch-bsuite": 1.0, "FourRooms-misc": 1.0}
"""Mean returns that no agent can exceed, in environments with their default parameters."""


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
class Scored:
    """A group with its scores."""

    group: Group
    scores: dict[str, FloatArray]
    """by task, [seeds], as they were recorded"""
    strata: dict[str, FloatArray]
    """by task, comparable over tasks: between 0 and 1 if there are several"""

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.group.label

    @property
    def count(self) -> int:
        """Seeds, of all tasks."""
        return sum(map(len, self.scores.values()))


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
    rows: list[GroupRow]
    pairs: list[PairRow]
    comparisons: int
    """of which the p values are adjusted for: all pairs of groups, shown or not"""
    effects: list[EffectRow]
    efficiency: list[Efficiency]
    optimum: dict[str, float]
    optimum_is: str
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> GroupRow:
        """The group with the highest interquartile mean."""
        return max(self.rows, key=lambda row: row.iqm.value)


def analyse(sources: list[Source], options: Options, notes: Sequence[str] = ()) -> Analysis:
    """Compare the seeds of the sources.

    Raises:
        ConfigError: a run lacks the metric, a key to group by is unknown, nothing can be compared.
    """
    collected = list(notes)
    chosen = select(sources, options.metric, options.align, options.full_length, collected)
    seeds = chosen.seeds
    if chosen.metric == curves.EVALUATION:
        seeds = with_variants(seeds, chosen.variant)
    groups = group(seeds, options.group_by)
    scored = _score(groups, chosen, options.score, collected)
    optimum, optimum_is = _optimum(scored, chosen, options.optimum)
    rows = [_row(each, _comparable(optimum, scored)) for each in scored]
    pairs, comparisons = _pairs(scored, rows)
    return Analysis(
        sources, options, chosen, scored, rows, pairs, comparisons,
        _effects(scored), efficiency(groups, chosen, options.threshold), optimum, optimum_is,
        collected,
    )  # fmt: skip


def _score(
    groups: Sequence[Group], chosen: Selection, how: curves.Score, notes: list[str]
) -> list[Scored]:
    """Scores of all groups; a seed without one gets the worst of its task."""

    def of(seed: SeedRun) -> float:
        if chosen.metric == curves.EVALUATION:
            return next(iter(seed.scores.values()))
        x, y = curves.curve(seed, chosen.metric, chosen.axis)
        end = curves.reach(seed, chosen.axis) if chosen.full_length else chosen.ends[seed.task]
        return curves.score(x, y, end, how)

    raw = [
        {task: np.array([of(s) for s in each.seeds if s.task == task]) for task in each.tasks}
        for each in groups
    ]
    tasks = sorted({task for scores in raw for task in scores})
    every = {task: np.concatenate([s[task] for s in raw if task in s]) for task in tasks}
    for task, values in every.items():
        missing = int((~np.isfinite(values)).sum())
        if missing == len(values):
            raise ConfigError(f"no run has a value of {chosen.metric} to be judged by yet")
        if missing:
            notes.append(
                f"{missing} of {len(values)} seeds{_on(task)} have no score (they diverged, or no "
                "episode finished); they count as the worst one"
            )
    worst = {task: float(np.nanmin(values)) for task, values in every.items()}
    best = {task: float(np.nanmax(values)) for task, values in every.items()}
    filled = [
        {task: np.where(np.isfinite(s), s, worst[task]) for task, s in scores.items()}
        for scores in raw
    ]
    if len(tasks) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )

    def scaled(task: str, values: FloatArray) -> FloatArray:
        if len(tasks) == 1:
            return values
        return (values - worst[task]) / ((best[task] - worst[task]) or 1.0)

    return [
        Scored(each, scores, {task: scaled(task, values) for task, values in scores.items()})
        for each, scores in zip(groups, filled, strict=True)
    ]


def _on(task: str) -> str:
    return f" on {task}" if task else ""


def _optimum(
    scored: Sequence[Scored], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str]:
    """The score that the gap is measured from, by task, and where it comes from."""
    tasks = sorted({task for each in scored for task in each.scores})
    if given is not None:
        return dict.fromkeys(tasks, given), "given"
    returns = chosen.metric in ("mean_return", curves.EVALUATION)
    if returns and all(task in _BEST_POSSIBLE for task in tasks):
        return {task: _BEST_POSSIBLE[task] for task in tasks}, "the best possible return"
    highest = {
        task: max(float(each.scores[task].max()) for each in scored if task in each.scores)
        for task in tasks
    }
    return highest, "the highest score of any seed"


def _comparable(optimum: dict[str, float], scored: Sequence[Scored]) -> dict[str, float]:
    """The optimum on the scale of the strata, which is linear in the scores."""
    if len(optimum) == 1:
        return optimum
    result = {}
    for task, value in optimum.items():
        every = np.concatenate([each.scores[task] for each in scored if task in each.scores])
        low, high = float(every.min()), float(every.max())
        result[task] = (value - low) / ((high - low) or 1.0)
    return result


def _row(scored: Scored, optimum: dict[str, float]) -> GroupRow:
    tasks = list(scored.strata)
    values = list(scored.strata.values())
    pooled = np.concatenate(values)
    variances = [each.var(ddof=1) if len(each) > 1 else 0.0 for each in values]
    return GroupRow(
        scored.label,
        scored.count,
        strata.estimate(values),
        float(pooled.mean()),
        float(np.sqrt(np.mean(variances))),
        strata.optimality_gap(values, [optimum[task] for task in tasks]),
        {task: strata.estimate([each]) for task, each in scored.scores.items()},
    )


def _common(first: Scored, second: Scored) -> list[str]:
    return [task for task in first.strata if task in second.strata]


def _pairs(scored: Sequence[Scored], rows: Sequence[GroupRow]) -> tuple[list[PairRow], int]:
    """The pairs that are shown, better first, with p values that allow for all of them."""
    order = sorted(range(len(scored)), key=lambda index: -rows[index].iqm.value)
    ranked = [scored[index] for index in order]
    every = [pair for pair in combinations(ranked, 2) if _common(*pair)]
    if not every:
        return [], 0
    p_values = [strata.rank_test(*_both(*pair)) for pair in every]
    adjusted = strata.holm(p_values)
    shown = [
        (pair, p)
        for pair, p in zip(every, adjusted, strict=True)
        if len(scored) <= _PAIRS_OF_ALL or pair[0] is ranked[0]
    ]
    return [_pair(*pair, p, len(every)) for pair, p in shown], len(every)


def _both(first: Scored, second: Scored) -> tuple[list[FloatArray], list[FloatArray]]:
    tasks = _common(first, second)
    return [first.strata[task] for task in tasks], [second.strata[task] for task in tasks]


def _pair(first: Scored, second: Scored, adjusted: float, comparisons: int) -> PairRow:
    x, y = _both(first, second)
    result = strata.contrast(x, y)
    return PairRow(
        first.label,
        second.label,
        (sum(map(len, x)), sum(map(len, y))),
        result,
        adjusted,
        strata.verdict(result, adjusted),
        strata.needed_runs(x, y, alpha=0.05 / comparisons),
        min(1.0, strata.smallest_p(x, y) * comparisons),
        _paired(first, second),
    )


def _paired(first: Scored, second: Scored) -> Paired | None:
    """The comparison of seeds with the same name on the same task, if there are two or more."""
    xs, ys = [], []
    for task in _common(first, second):
        of_first, of_second = _named(first, task), _named(second, task)
        names = [name for name in of_first if name in of_second]
        if names:
            xs.append(np.array([of_first[name] for name in names]))
            ys.append(np.array([of_second[name] for name in names]))
    return strata.paired(xs, ys) if sum(map(len, xs)) > 1 else None


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
        rows += _effect(key, values[:_MOST_VALUES], flat)
    known = [index for index, row in enumerate(rows) if row.p is not None]
    adjusted = strata.holm([rows[index].p or 0.0 for index in known])
    for index, p in zip(known, adjusted, strict=True):
        rows[index] = EffectRow(**{**vars(rows[index]), "p": p})
    return rows


def _effect(
    key: str, values: Sequence[str], flat: Sequence[tuple[SeedRun, str, float]]
) -> list[EffectRow]:
    parts: dict[str, dict[str, FloatArray]] = {}
    for value in values:
        mine = [(task, s) for seed, task, s in flat if value_of(seed, key) == value]
        tasks = sorted({task for task, _ in mine})
        parts[value] = {task: np.array([s for t, s in mine if t == task]) for task in tasks}
    estimates = {value: strata.estimate(list(part.values())) for value, part in parts.items()}
    best = max(values, key=lambda value: estimates[value].value)
    rows = []
    for value in values:
        tasks = [task for task in parts[best] if task in parts[value]]
        other = None
        if value != best and tasks:
            other = strata.contrast(
                [parts[value][task] for task in tasks], [parts[best][task] for task in tasks]
            )
        count = sum(map(len, parts[value].values()))
        difference, p = (other.difference, other.p) if other else (None, None)
        rows.append(EffectRow(key, value, count, estimates[value], difference, p))
    return rows


def change_together(seeds: Sequence[SeedRun]) -> list[list[str]]:
    """Settings of which each tells the other: their effects cannot be told apart.

    The plainest one comes first.
    """
    partitions: dict[tuple[int, ...], list[str]] = {}
    found = differing(seeds)
    for key in sorted(found, key=lambda key: plainness(key, found[key]), reverse=True):
        numbers: dict[str, int] = {}
        pattern = tuple(numbers.setdefault(value_of(s, key), len(numbers)) for s in seeds)
        partitions.setdefault(pattern, []).append(key)
    return [keys for keys in partitions.values() if len(keys) > 1]
