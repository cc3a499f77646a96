"""Typed results of a comparison of runs."""

from dataclasses import dataclass, field
from typing import Literal

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.seed_run import SeedRun, Source
from metaevo.comparison.compare_runs.selection import Selection
from metaevo.config.plain import PlainDict
from metaevo.statistics import Estimate, Verdict

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
    """Statistics of a group; over several tasks, of the scaled scores."""

    iqm: Estimate
    mean: float
    std: float
    """standard deviation within a task"""
    gap: Estimate
    """mean distance to the best possible score"""


@dataclass(frozen=True)
class PairResult:
    """Two groups, the better one first."""

    first: str
    second: str
    seeds: tuple[int, int]
    difference: Estimate
    """in interquartile mean, of the first from the second"""
    probability: Estimate
    """probability that a seed of the first is better than a seed of the second"""
    p: float
    """of this pair alone"""
    adjusted_p: float
    verdict: Verdict
    needed: float
    """estimated seeds per group for a decision; infinite if no number would decide"""
    smallest_p: float
    """adjusted p-value of completely separated scores"""


@dataclass(frozen=True)
class EffectResult:
    """Seeds with the same value of a setting, pooled over all other settings."""

    setting: str
    value: str
    seeds: int
    iqm: Estimate
    difference: Estimate
    """from the value with the best IQM; NaN for that value"""
    p: float | None
    """adjusted for all rows"""


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    sources: list[Source] = field(repr=False)
    options: Options
    selection: Selection = field(repr=False)
    scores: dict[SeedRun, float] = field(repr=False)
    """as recorded; a missing score is the worst one of its task"""
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

    def table(self, name: TableName = "scores") -> list[PlainDict]:
        """Return a table as records, such as `pandas.DataFrame` reads.

        `name` is "scores" (one row per seed), "groups", "pairs", "tasks" (groups on single tasks),
        "efficiency" (steps to reach the threshold), "effects" (of single settings) or "runs". The
        columns of an interval end in `_low` and `_high`.
        """
        tables = self.rows()
        if name not in tables:
            raise ValueError(f"name = {name!r}: must be one of {', '.join(tables)}")
        return [statistics.flat_record(row) for row in tables[name]]

    def rows(self) -> dict[str, list[PlainDict]]:
        """Return all tables by name. An interval is a column with its estimate."""
        return {
            "scores": [
                {"group": each.label, "task": seed.task, "run": seed.run, "seed": seed.seed,
                 "score": self.scores[seed]}
                for each in self.groups
                for seed in each.seeds
            ],
            "groups": [
                {"group": each.label, "seeds": len(each.seeds), "iqm": each.iqm,
                 "mean": each.mean, "std": each.std, "gap": each.gap}
                for each in self.groups
            ],
            "pairs": [
                {"group": each.first, "against": each.second, "verdict": each.verdict,
                 "difference": each.difference,
                 "probability_of_improvement": each.probability,
                 "p": each.adjusted_p, "seeds_needed": each.needed}
                for each in self.pairs
            ],
            "tasks": [
                {"task": task, "group": each.label, "seeds": len(own),
                 "iqm": statistics.estimate([[self.scores[seed] for seed in own]])}
                for task in self.optimum
                for each in self.groups
                if (own := each.on(task))
            ],
            "efficiency": [
                {name: value for name, value in vars(each).items() if name != "middle"}
                for each in self.efficiency
            ],
            "effects": [dict(vars(each)) for each in self.effects],
            "runs": [
                {"name": each.name, "kind": each.kind, "state": each.state,
                 "progress": each.progress,
                 "seeds": len({seed.seed for seed in self.seeds if seed.run == each.name})}
                for each in self.sources
            ],
        }  # fmt: skip
