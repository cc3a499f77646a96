"""Every number of a comparison of runs, computed from their seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves, sources
from metaevo.comparison.compare_runs.directions import EVALUATION
from metaevo.comparison.compare_runs.efficiency import Efficiency, efficiency
from metaevo.comparison.compare_runs.grouping import (
    differing,
    group,
    plainness,
    value_of,
    with_variants,
)
from metaevo.comparison.compare_runs.scoring import Scored, best_score, score
from metaevo.comparison.compare_runs.seed_run import FloatArray, SeedRun, Source
from metaevo.comparison.compare_runs.selection import Selection, select
from metaevo.statistics import Contrast, Estimate, Paired, Verdict

_PAIRS_OF_ALL = 5
"""Up to so many groups every pair is shown, beyond it the best group against the others."""
_MOST_KEYS, _MOST_VALUES = 12, 12

Record = dict[str, str | float | None]
"""A row of a table, by the names of its columns."""
TableName = Literal["scores", "groups", "pairs", "effects", "efficiency"]


@dataclass(frozen=True)
class Options:
    """How runs are compared, see `compare_runs`."""

    metric: str | None = None
    score: curves.Score = "final"
    group_by: tuple[str, ...] | None = None
    align: str | None = None
    threshold: float | None = None
    optimum: float | None = None
    full_length: bool = False


@dataclass(frozen=True)
class GroupResult:
    """The scores of a group; over several tasks, on the scale that the tasks share."""

    scored: Scored
    iqm: Estimate
    mean: float
    std: float
    """within a task"""
    gap: Estimate
    """mean distance to the best possible score"""
    by_task: dict[str, Estimate]
    """IQM of each task, not scaled"""

    @property
    def label(self) -> str:
        """The settings that distinguish the group."""
        return self.scored.label

    @property
    def count(self) -> int:
        """Number of seeds, over all tasks."""
        return self.scored.count


@dataclass(frozen=True)
class PairResult:
    """Two groups, the better one first."""

    first: str
    second: str
    seeds: tuple[int, int]
    contrast: Contrast
    adjusted_p: float
    verdict: Verdict
    needed: float
    """seeds of each group that would decide, infinite if none would"""
    smallest_p: float
    """adjusted p-value of completely separated scores"""
    paired: Paired | None
    claimable: bool
    """whether no seed with an unknown score had to be left out"""


@dataclass(frozen=True)
class EffectResult:
    """The seeds with one value of a setting, pooled over all other settings."""

    key: str
    value: str
    count: int
    iqm: Estimate
    difference: Estimate | None
    """from the value with the best IQM; None for that value itself"""
    p: float | None
    """adjusted over all rows of all settings"""


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    sources: list[Source]
    options: Options
    selection: Selection
    groups: list[GroupResult]
    """best first"""
    pairs: list[PairResult]
    comparisons: int
    """number of pairs of groups for which p-values are adjusted, shown or not"""
    effects: list[EffectResult]
    efficiency: list[Efficiency]
    optimum: dict[str, float]
    """by task, the score from which the optimality gap is measured"""
    optimum_is: str
    notes: list[str] = field(default_factory=list)
    """left-out runs, scaling, missing scores"""

    @property
    def seeds(self) -> list[SeedRun]:
        """All seeds, in the order of the groups."""
        return [seed for each in self.groups for seed in each.scored.group.seeds]

    def table(self, name: TableName = "scores") -> list[Record]:
        """Return one table as records.

        Args:
            name: "scores" (one row per seed), "groups", "pairs", "effects" (of single settings) or
                "efficiency" (steps to reach the threshold).
        """
        if name == "scores":
            return [
                {"group": each.label, "task": task, "run": seed.run, "seed": seed.seed, "score": s}
                for each in self.groups
                for task, seed, s in each.scored.by_seed()
            ]
        if name == "groups":
            return [
                {"group": each.label, "seeds": each.count, **_columns("iqm", each.iqm),
                 "mean": each.mean, "std": each.std, **_columns("gap", each.gap)}
                for each in self.groups
            ]  # fmt: skip
        if name == "pairs":
            return [
                {"group": each.first, "against": each.second, "verdict": each.verdict,
                 **_columns("difference", each.contrast.difference),
                 **_columns("probability_of_improvement", each.contrast.probability),
                 "p": each.adjusted_p, "seeds_needed": each.needed}
                for each in self.pairs
            ]  # fmt: skip
        if name == "effects":
            return [
                {"setting": each.key, "value": each.value, "seeds": each.count,
                 **_columns("iqm", each.iqm), **_columns("difference", each.difference),
                 "p": each.p}
                for each in self.effects
            ]  # fmt: skip
        if name == "efficiency":
            return [
                {"group": each.label, "task": each.task, "threshold": each.threshold,
                 "reached_at": each.reached_at, "low": each.interval[0], "high": each.interval[1]}
                for each in self.efficiency
            ]  # fmt: skip
        raise ValueError(f"name = {name!r}: must be scores, groups, pairs, effects or efficiency")


def _columns(name: str, estimate: Estimate | None) -> Record:
    value, (low, high) = (None, (None, None)) if estimate is None else estimate
    return {name: value, f"{name}_low": low, f"{name}_high": high}


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
    """Compare recorded runs: which settings are better, by how much, and how certain that is.

    Examples:
        >>> found = metaevo.compare_runs(["runs/ppo", "runs/ppo_fast"])
        >>> found.pairs[0].verdict
        >>> pandas.DataFrame(found.table("groups"))

    Args:
        runs: run directories, folders of them, globs, `wandb:ENTITY/PROJECT[/RUN]`,
            `wandb:DIRECTORY`, `mlflow:URI#EXPERIMENT`.
        metric: a name in the records, or `evaluation[:VARIANT]` for scores of evaluation.json; by
            default the mean return, the fitness of the mean, or the best value of a sweep.
        score: how a curve becomes one number: the mean of its last tenth ("final") or of the whole
            curve ("area"), or its best point ("best").
        group_by: settings that form the groups; by default all that differ.
        align: "steps", "generations" or "seconds".
        threshold: for the steps to reach it; by default 90% of the way to the best curve's top.
        optimum: the score that the optimality gap is measured from.
        full_length: judge every run at its own end instead of where all have come.

    Raises:
        ConfigError: if a run cannot be read, lacks the metric, or no run can be compared.
    """
    keys = None if group_by is None else tuple(group_by)
    options = Options(metric, score, keys, align, threshold, optimum, full_length)
    found, notes = sources.read_all([str(run) for run in runs])
    return analyse(found, options, notes)


def analyse(found: list[Source], options: Options, notes: Sequence[str] = ()) -> RunComparison:
    """Compare the seeds of the sources.

    Raises:
        ConfigError: see `compare_runs`.
    """
    collected = list(notes)
    chosen = select(found, options.metric, options.align, options.full_length, collected)
    seeds = chosen.seeds
    if chosen.metric == EVALUATION:
        seeds = with_variants(seeds, chosen.variant)
    scored = score(group(seeds, options.group_by), chosen, options.score, collected)
    optimum, optimum_is, on_scale = best_score(scored, chosen, options.optimum)
    results = [_group(each, on_scale) for each in scored]
    # Best first: the order of all rows, legends and plots.
    results.sort(key=lambda each: -each.scored.sign * each.iqm.value)
    scored = [each.scored for each in results]
    pairs, comparisons = _pairs(scored)
    return RunComparison(
        found, options, chosen, results, pairs, comparisons, _effects(scored),
        efficiency([each.group for each in scored], chosen, options.threshold),
        optimum, optimum_is, collected,
    )  # fmt: skip


def _group(scored: Scored, optimum: dict[str, float]) -> GroupResult:
    values, sign = list(scored.strata.values()), scored.sign
    variances = [each.var(ddof=1) if len(each) > 1 else 0.0 for each in values]
    best = [sign * optimum[task] for task in scored.strata]
    return GroupResult(
        scored,
        statistics.estimate(values),
        float(np.concatenate(values).mean()),
        float(np.sqrt(np.mean(variances))),
        statistics.optimality_gap([sign * each for each in values], best),
        {task: statistics.estimate([each]) for task, each in scored.scores.items()},
    )


def _both(first: Scored, second: Scored) -> tuple[list[FloatArray], list[FloatArray]]:
    """The strata of the tasks that two groups have in common."""
    tasks = [task for task in first.strata if task in second.strata]
    return [first.strata[task] for task in tasks], [second.strata[task] for task in tasks]


def _pairs(ranked: Sequence[Scored]) -> tuple[list[PairResult], int]:
    """The pairs that are shown, better first, with p-values adjusted for all pairs."""
    every = [pair for pair in combinations(ranked, 2) if _both(*pair)[0]]
    adjusted = statistics.holm([statistics.rank_test(*_both(*pair)) for pair in every])
    shown = [
        _pair(*pair, p, len(every))
        for pair, p in zip(every, adjusted, strict=True)
        if len(ranked) <= _PAIRS_OF_ALL or pair[0] is ranked[0]
    ]
    return shown, len(every)


def _pair(first: Scored, second: Scored, adjusted: float, comparisons: int) -> PairResult:
    x, y = _both(first, second)
    result = _contrast(x, y, first.sign)
    claimable = first.complete and second.complete
    return PairResult(
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
    """Compare two groups; the difference is positive where x is better."""
    return statistics.contrast([sign * each for each in x], [sign * each for each in y])


def _signed(estimate: Estimate, sign: int) -> Estimate:
    """Multiply an estimate by a sign."""
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


def _paired(first: Scored, second: Scored) -> Paired | None:
    """Compare seeds with the same name on the same task; None for fewer than two such pairs."""
    x, y = first.by_name(), second.by_name()
    tasks = [task for task in x if x[task].keys() & y.get(task, {}).keys()]
    names = {task: [name for name in x[task] if name in y[task]] for task in tasks}
    xs, ys = (
        [np.array([side[task][name] for name in names[task]]) for task in tasks] for side in (x, y)
    )
    return statistics.paired(xs, ys) if sum(map(len, xs)) > 1 else None


def _effects(scored: Sequence[Scored]) -> list[EffectResult]:
    """For each setting that differs, the scores by its values; none if a score is unknown."""
    if not all(each.complete for each in scored):
        return []
    flat = [
        (seed, task, float(value))
        for each in scored
        for task, values in each.strata.items()
        for seed, value in zip(each.group.on(task), values, strict=True)
    ]
    seeds = [seed for seed, _, _ in flat]
    redundant = {key for keys in change_together(seeds) for key in keys[1:]}
    found = {key: values for key, values in differing(seeds).items() if key not in redundant}
    rows: list[EffectResult] = []
    for key, values in list(found.items())[:_MOST_KEYS]:
        rows += _effect(key, values[:_MOST_VALUES], flat, scored[0].sign)
    adjusted = iter(statistics.holm([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, p=next(adjusted)) for row in rows]


def _effect(
    key: str, values: Sequence[str], flat: Sequence[tuple[SeedRun, str, float]], sign: int
) -> list[EffectResult]:
    parts: dict[str, dict[str, Any]] = {value: {} for value in values}
    for seed, task, scored in sorted(flat, key=lambda each: each[1]):
        if (own := value_of(seed, key)) in parts:
            parts[own].setdefault(task, []).append(scored)
    estimates = {
        value: statistics.estimate([np.array(each) for each in part.values()])
        for value, part in parts.items()
    }
    best = max(values, key=lambda value: sign * estimates[value].value)
    rows = []
    for value, part in parts.items():
        tasks = [task for task in parts[best] if task in part]
        difference, p = None, None
        if value != best and tasks:
            x, y = ([np.array(side[task]) for task in tasks] for side in (part, parts[best]))
            other = _contrast(x, y, sign)
            difference, p = _signed(other.difference, sign), other.p
        count = sum(map(len, part.values()))
        rows.append(EffectResult(key, value, count, estimates[value], difference, p))
    return rows


def change_together(seeds: Sequence[SeedRun]) -> list[list[str]]:
    """Return settings that always change together, so that their effects cannot be separated.

    The plainest setting of each list comes first.
    """
    partitions: dict[tuple[int, ...], list[str]] = {}
    found = differing(seeds)
    for key in sorted(found, key=lambda key: plainness(key, found[key]), reverse=True):
        numbers: dict[str, int] = {}
        pattern = tuple(numbers.setdefault(value_of(s, key), len(numbers)) for s in seeds)
        partitions.setdefault(pattern, []).append(key)
    return [keys for keys in partitions.values() if len(keys) > 1]
