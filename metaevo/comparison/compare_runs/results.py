"""Typed results of a comparison of runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.seed_run import SeedRun, Source
from metaevo.comparison.compare_runs.selection import Selection
from metaevo.statistics import Contrast, Estimate, FloatArray, Verdict

Record = dict[str, str | float | None]
"""A row of a table by column."""
TableName = Literal["scores", "groups", "pairs", "tasks", "efficiency", "effects", "runs"]


@dataclass(frozen=True)
class Options:
    """Arguments of `compare_runs`."""

    metric: str | None = None
    score: curves.Score = "final"
    group_by: tuple[str, ...] | None = None
    align: str | None = None
    threshold: float | None = None
    optimum: float | None = None
    full_length: bool = False


@dataclass(frozen=True)
class GroupResult(Group):
    """The scores of a group. Over several tasks, statistics are of the scaled scores."""

    scores: dict[str, FloatArray]
    """by task, [seeds] as recorded"""
    scaled: dict[str, FloatArray]
    """by task, [seeds], higher is better; over several tasks 0 is the worst and 1 the best"""
    iqm: Estimate
    mean: float
    std: float
    """standard deviation within a task"""
    gap: Estimate
    """mean distance to the best possible score"""

    @property
    def count(self) -> int:
        """Number of seeds, over all tasks."""
        return sum(map(len, self.scores.values()))

    def by_seed(self) -> Iterator[tuple[SeedRun, float, float]]:
        """Yield each seed with its recorded and its scaled score."""
        for task, scores in self.scores.items():
            scaled = self.scaled[task].tolist()
            yield from zip(self.on(task), scores.tolist(), scaled, strict=True)


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
    """estimated seeds per group for a decision; infinite if no number would decide"""
    smallest_p: float
    """adjusted p-value of completely separated scores"""


@dataclass(frozen=True)
class EffectResult:
    """Seeds with the same value of a setting, pooled over all other settings."""

    key: str
    value: str
    count: int
    iqm: Estimate
    difference: Estimate | None
    """from the value with the best IQM; None for that value"""
    p: float | None
    """adjusted for all rows"""


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    sources: list[Source] = field(repr=False)
    options: Options
    selection: Selection = field(repr=False)
    groups: list[GroupResult] = field(repr=False)
    """best first"""
    pairs: list[PairResult]
    comparisons: int
    """number of pairs that p-values are adjusted for"""
    effects: list[EffectResult] = field(repr=False)
    efficiency: list[curves.Efficiency] = field(repr=False)
    optimum: dict[str, float]
    """by task, the best possible score"""
    optimum_is: str
    """source of the optimum"""
    notes: list[str]
    """about left-out runs, scaling and missing scores"""

    @property
    def seeds(self) -> list[SeedRun]:
        """All seeds, in the order of the groups."""
        return [seed for each in self.groups for seed in each.seeds]

    def table(self, name: TableName = "scores") -> list[Record]:
        """Return a table as records, such as `pandas.DataFrame` reads.

        `name` is "scores" (one row per seed), "groups", "pairs", "tasks" (groups on single tasks),
        "efficiency" (steps to reach the threshold), "effects" (of single settings) or "runs".
        """
        tables = self.tables()
        if name not in tables:
            raise ValueError(f"name = {name!r}: must be one of {', '.join(tables)}")
        return tables[name]

    def tables(self) -> dict[str, list[Record]]:
        """Return all tables by name. The columns of an interval end in `_low` and `_high`."""
        return {
            "scores": [
                {"group": each.label, "task": seed.task, "run": seed.run, "seed": seed.seed,
                 "score": score}
                for each in self.groups
                for seed, score, _ in each.by_seed()
            ],
            "groups": [
                {"group": each.label, "seeds": each.count, **_columns("iqm", each.iqm),
                 "mean": each.mean, "std": each.std, **_columns("gap", each.gap)}
                for each in self.groups
            ],
            "pairs": [
                {"group": each.first, "against": each.second, "verdict": each.verdict,
                 **_columns("difference", each.contrast.difference),
                 **_columns("probability_of_improvement", each.contrast.probability),
                 "p": each.adjusted_p, "seeds_needed": each.needed}
                for each in self.pairs
            ],
            "tasks": [
                {"task": task, "group": each.label, "seeds": len(each.scores[task]),
                 **_columns("iqm", statistics.estimate([each.scores[task]]))}
                for task in self.optimum
                for each in self.groups
                if task in each.scores
            ],
            "efficiency": [
                {"group": each.label, "task": each.task, "threshold": each.threshold,
                 "reached_at": each.reached_at, "reached_at_low": each.interval[0],
                 "reached_at_high": each.interval[1], "seeds": each.seeds,
                 "seeds_that_reach": each.seeds_that_reach}
                for each in self.efficiency
            ],
            "effects": [
                {"setting": each.key, "value": each.value, "seeds": each.count,
                 **_columns("iqm", each.iqm), **_columns("difference", each.difference),
                 "p": each.p}
                for each in self.effects
            ],
            "runs": [
                {"name": each.name, "kind": each.kind, "state": each.state,
                 "progress": each.progress,
                 "seeds": len({seed.seed for seed in self.seeds if seed.run == each.name})}
                for each in self.sources
            ],
        }  # fmt: skip


def _columns(name: str, estimate: Estimate | None) -> Record:
    value, (low, high) = (None, (None, None)) if estimate is None else estimate
    return {name: value, f"{name}_low": low, f"{name}_high": high}
