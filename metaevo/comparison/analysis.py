"""Compare recorded runs: scores of groups of seeds, and their differences from a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from metaevo import statistics
from metaevo.comparison import selection, sources
from metaevo.comparison.recorded import AXES, Curve, direction
from metaevo.comparison.selection import Score, group
from metaevo.config import ConfigError, PlainDict, show
from metaevo.reports.page import counted
from metaevo.statistics import Comparison, Estimate, FloatArray, Interval

_Strata = dict[str, FloatArray]
"""Scores [seeds] by task."""


@dataclass(frozen=True)
class Group:
    """Seeds that are pooled, with their statistics; over several tasks, of the scaled scores."""

    label: str
    curves: list[Curve] = field(repr=False)
    iqm: Estimate
    comparison: Comparison | None
    """with the baseline on the tasks that both have, p adjusted by Holm's method for all groups;
    None for the baseline, and for a group that shares no task with it"""

    def on(self, task: str) -> list[Curve]:
        """Return the curves on a task."""
        return [each for each in self.curves if each.run.task == task]


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    metric: str
    """`evaluation` or `evaluation:NAME` for held-out scores"""
    axis: str
    """what the curves are drawn over, such as "environment steps"; empty for held-out scores"""
    score: Score
    """how curves were reduced to scores"""
    groups: list[Group]
    """best first; a missing score is the worst one of its task"""
    baseline: str
    """label of the group of the first run"""
    notes: list[str]
    """about left-out runs, scaling and missing scores"""

    @property
    def tasks(self) -> list[str]:
        """All tasks."""
        return sorted({curve.run.task for each in self.groups for curve in each.curves})

    def curves_on(self, task: str) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return positions [points] and curves [seeds, points] on a task by the group's label."""
        own = {each.label: found for each in self.groups if (found := each.on(task))}
        curves = {label: selection.aligned(members) for label, members in own.items()}
        return {label: each for label, each in curves.items() if each[1].size}

    def table(self, name: Literal["groups", "scores"] = "groups") -> list[PlainDict]:
        """Return a table as records, such as `pandas.DataFrame` reads.

        Args:
            name: "groups" for statistics and differences from the baseline, "scores" for the score
                of every seed.

        Returns:
            the records; the columns of an interval end in `_low` and `_high`.
        """
        if name == "groups":
            return [statistics.flat_record(row) for row in self.rows()]
        if name == "scores":
            return [
                {"group": each.label, "task": curve.run.task, "run": curve.run.name,
                 "seed": curve.seed, "score": curve.score}
                for each in self.groups
                for curve in each.curves
            ]  # fmt: skip
        raise ValueError(f"name = {name!r}: must be groups or scores")

    def rows(self) -> list[PlainDict]:
        """Return the table of groups; an interval is a column with its estimate."""
        return [self._row(each) for each in self.groups]

    def _row(self, each: Group) -> PlainDict:
        found, several = each.comparison, len(self.tasks) > 1
        verdict = found.conclusion if found else "baseline" if each.label == self.baseline else None
        return {
            "group": each.label,
            "seeds": len(each.curves),
            "iqm": each.iqm,
            "difference": found and found.difference,
            "verdict": verdict,
            "probability_of_improvement": found and found.probability_of_improvement,
            "p": found and found.p,
        } | {
            task: statistics.estimate([curve.score for curve in own]) if own else None
            for task, own in ((task, each.on(task)) for task in self.tasks if several)
        }


def compare_runs(
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    score: Score = "final",
    group_by: Sequence[str] | None = None,
) -> RunComparison:
    """Compare recorded runs by the settings in which they differ.

    Examples:
        >>> found = metaevo.compare_runs(["runs/ppo", "runs/ppo_fast"])
        >>> records = found.table()

    Args:
        runs: one or several run directories, parent folders, globs,
            `wandb:ENTITY/PROJECT[/RUN]`, `wandb:DIRECTORY`. The group of the first run is the
            baseline.
        metric: a name in the records, or `evaluation[:NAME]` for held-out scores; by default the
            mean return, the held-out scores or fitness of evolutions, or the best value of a sweep.
        score: how a curve is reduced to one number: the mean of its last tenth ("final") or of the
            whole curve ("area").
        group_by: settings that form the groups; by default all that differ.

    Raises:
        ConfigError: if a run cannot be read, lacks the metric, or no run can be compared.
    """
    if score not in (known := get_args(Score)):
        raise ConfigError(f"score = {show(score)}: must be one of {', '.join(known)}")
    notes: list[str] = []
    given = sources.read_all(
        [str(run) for run in ([runs] if isinstance(runs, str | Path) else runs)], notes
    )
    metric, recorded = selection.select(given, metric, score, notes)
    better = direction(metric)
    if better is None:
        notes.append(
            f"every verdict is undecided, because it is unknown whether high or low values of "
            f"{metric} are better"
        )
    ends = _ends(recorded, metric, notes)
    found = [
        replace(curve, score=curve.score if np.isfinite(curve.score) else ends[curve.run.task][0])
        for curve in recorded
        if better or np.isfinite(curve.score)
    ]
    groups = group(found, [group_by] if isinstance(group_by, str) else group_by, notes)
    baseline = next(iter(groups))
    if len(ends) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    strata = {label: _strata(own, ends) for label, own in groups.items()}
    lower = better == "lower" and len(ends) == 1
    compared = _compared(strata, baseline, lower=lower, is_decidable=better is not None)
    results = [
        Group(label, own, statistics.estimate(strata[label]), compared.get(label))
        for label, own in groups.items()
    ]
    axis = "" if metric in found[0].run.scores else AXES[found[0].run.axis]
    results.sort(key=lambda each: each.iqm.value, reverse=not lower)
    return RunComparison(metric, axis, score, results, baseline, notes)


def _ends(recorded: Sequence[Curve], metric: str, notes: list[str]) -> dict[str, Interval]:
    """Return the worst and the best score on each task, and note missing ones.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    better = direction(metric)
    found = {}
    for task in sorted({curve.run.task for curve in recorded}):
        own = [curve.score for curve in recorded if curve.run.task == task]
        known = sorted(score for score in own if np.isfinite(score))
        if not known:
            raise ConfigError(f"no run has a value of {metric} yet")
        found[task] = (known[-1], known[0]) if better == "lower" else (known[0], known[-1])
        if missing := len(own) - len(known):
            on = f" on {task}" if task else ""
            fate = "they count as the worst one" if better else "they are left out"
            notes.append(
                f"{missing} of {counted(len(own), 'seed')}{on} have no score (they diverged, or "
                f"no episode finished); {fate}"
            )
    return found


def _strata(own: Sequence[Curve], ends: Mapping[str, Interval]) -> _Strata:
    """Return the scores of a group by task; if there are several tasks, scaled on each."""
    strata = {}
    for task in sorted({curve.run.task for curve in own}):
        worst, best = ends[task] if len(ends) > 1 else (0.0, 1.0)
        scores = np.array([curve.score for curve in own if curve.run.task == task])
        strata[task] = (scores - worst) / ((best - worst) or 1.0)
    return strata


def _compared(
    strata: Mapping[str, _Strata], baseline: str, *, lower: bool, is_decidable: bool
) -> dict[str, Comparison]:
    """Return comparisons with the baseline by group; `lower` if low scores are better."""
    base, sign = strata[baseline], -1.0 if lower else 1.0
    found: dict[str, Comparison] = {}
    for label, own in strata.items():
        shared = [task for task in own if task in base]
        if shared and label != baseline:
            both = ({task: sign * each[task] for task in shared} for each in (own, base))
            found[label] = statistics.compare(*both)
    adjusted = statistics.holm([each.p for each in found.values()])
    for (label, each), p in zip(list(found.items()), adjusted, strict=True):
        verdict = statistics.verdict(each, p) if is_decidable else "undecided"
        low, high = sorted(sign * end for end in each.difference.interval)
        difference = Estimate(sign * each.difference.value, (low, high))
        found[label] = each._replace(p=p, conclusion=verdict, difference=difference)
    return found
