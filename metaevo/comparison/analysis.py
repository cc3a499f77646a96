"""Compare recorded runs: scores of groups of seeds, and their differences from a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from metaevo import statistics
from metaevo.comparison import curves, sources
from metaevo.comparison.curves import Middle, RunCurve, Score
from metaevo.comparison.grouping import group
from metaevo.comparison.seed_run import direction
from metaevo.config import ConfigError, show
from metaevo.config.plain import PlainDict, listed
from metaevo.reports.numbers import counted
from metaevo.statistics import Comparison, Estimate, FloatArray

COMPARED = "difference", "verdict", "probability_of_improvement", "p"
"""Columns of a table about the comparison with the baseline."""
_Strata = dict[str, FloatArray]
"""Scores [seeds] by task; high ones are better."""


@dataclass(frozen=True)
class Group:
    """Seeds that are pooled, with their statistics; over several tasks, of the scaled scores."""

    label: str
    curves: list[RunCurve] = field(repr=False)
    iqm: Estimate
    comparison: Comparison | None
    """with the baseline on the tasks that both have, p adjusted by Holm's method for all groups;
    None for the baseline, and for a group that shares no task with it"""

    def on(self, task: str) -> list[RunCurve]:
        """Return the curves on a task."""
        return [each for each in self.curves if each.seed.task == task]


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    metric: str
    """`evaluation` or `evaluation:VARIANT` for held-out scores"""
    axis: str
    """axis of the curves"""
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
        return sorted({curve.seed.task for each in self.groups for curve in each.curves})

    def middles(self, task: str) -> dict[str, Middle]:
        """Return the middle curves on a task by the label of the group; none of held-out scores."""
        if curves.is_held_out(self.metric):
            return {}
        own = {each.label: found for each in self.groups if (found := each.on(task))}
        points = curves.grid([curve for members in own.values() for curve in members])
        return {label: curves.middle(members, points) for label, members in own.items()}

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
                {"group": each.label, "task": curve.seed.task, "run": curve.seed.run,
                 "seed": curve.seed.seed, "score": curve.score}
                for each in self.groups
                for curve in each.curves
            ]  # fmt: skip
        raise ValueError(f"name = {name!r}: must be groups or scores")

    def rows(self) -> list[PlainDict]:
        """Return the table of groups; an interval is a column with its estimate."""
        return [self._row(each) for each in self.groups]

    def _row(self, each: Group) -> PlainDict:
        row: PlainDict = {"group": each.label, "seeds": len(each.curves), "iqm": each.iqm}
        if (found := each.comparison) is not None:
            difference = Estimate(found.difference, found.difference_interval)
            probability = Estimate(found.probability_of_improvement, found.probability_interval)
            values = difference, found.conclusion, probability, found.p
            row |= zip(COMPARED, values, strict=True)
        else:
            row |= dict.fromkeys(COMPARED)
            row["verdict"] = "baseline" if each.label == self.baseline else None
        if len(self.tasks) > 1:
            for task in self.tasks:
                own = [curve.score for curve in each.on(task)]
                row[task] = statistics.estimate([own]) if own else None
        return row


def compare_runs(
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    score: Score = "final",
    group_by: Sequence[str] | None = None,
    align: str | None = None,
    full_length: bool = False,
) -> RunComparison:
    """Compare recorded runs by the settings in which they differ.

    Examples:
        >>> found = metaevo.compare_runs(["runs/ppo", "runs/ppo_fast"])
        >>> records = found.table()

    Args:
        runs: one or several run directories, parent folders, globs,
            `wandb:ENTITY/PROJECT[/RUN]`, `wandb:DIRECTORY`, `mlflow:URI#EXPERIMENT`. The group of
            the first run is the baseline.
        metric: a name in the records, or `evaluation[:VARIANT]` for held-out scores; by
            default the mean return, the fitness of the mean, or the best value of a sweep.
        score: how a curve is reduced to one number: the mean of its last tenth ("final") or of the
            whole curve ("area"), or its best point ("best").
        group_by: settings that form the groups; by default all that differ.
        align: "steps", "generations" or "seconds".
        full_length: score every run at its own end instead of the last common point.

    Raises:
        ConfigError: if a run cannot be read, lacks the metric, or no run can be compared.
    """
    if score not in (known := get_args(Score)):
        raise ConfigError(f"score = {show(score)}: must be one of {', '.join(known)}")
    notes: list[str] = []
    seeds = sources.read_all([str(run) for run in listed(runs)], notes)
    metric, axis, recorded = curves.select(seeds, metric, align, score, full_length, notes)
    better = direction(metric)
    if better is None:
        notes.append(
            f"every verdict is undecided, because it is unknown whether high or low values of "
            f"{metric} are better"
        )
    found = _filled(recorded, metric, notes)
    tasks = {curve.seed.task for curve in found}
    if len(tasks) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    groups = group(found, None if group_by is None else listed(group_by))
    scored = {curve.seed for curve in found}
    first = next(curve.seed for curve in recorded if curve.seed in scored)
    baseline = next(
        label for label, own in groups.items() if any(curve.seed is first for curve in own)
    )
    higher = -1.0 if better == "lower" else 1.0
    # High scaled scores are better. Scores on a single task are shown as recorded.
    sign = higher if len(tasks) == 1 else 1.0
    strata = _strata(groups, higher)
    compared = _compared(strata, baseline, sign, decidable=better is not None)
    estimates = {
        label: _signed(statistics.estimate(list(own.values())), sign)
        for label, own in strata.items()
    }
    order = sorted(groups, key=lambda label: -sign * estimates[label].value)
    results = [
        Group(label, groups[label], estimates[label], compared.get(label)) for label in order
    ]
    return RunComparison(metric, axis, score, results, baseline, notes)


def _filled(recorded: Sequence[RunCurve], metric: str, notes: list[str]) -> list[RunCurve]:
    """Return scores by task; missing ones are the worst, or left out if it is unknown which is.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    better = direction(metric)
    found: list[RunCurve] = []
    for task in sorted({curve.seed.task for curve in recorded}):
        own = [curve for curve in recorded if curve.seed.task == task]
        known = [curve for curve in own if np.isfinite(curve.score)]
        if not known:
            raise ConfigError(f"no run has a value of {metric} yet")
        if missing := len(own) - len(known):
            on = f" on {task}" if task else ""
            fate = "they count as the worst one" if better else "they are left out"
            notes.append(
                f"{missing} of {counted(len(own), 'seed')}{on} have no score (they diverged, or "
                f"no episode finished); {fate}"
            )
        worst = (max if better == "lower" else min)(curve.score for curve in known)
        found += known if better is None else [
            curve if np.isfinite(curve.score) else replace(curve, score=worst) for curve in own
        ]  # fmt: skip
    return found


def _strata(groups: Mapping[str, Sequence[RunCurve]], higher: float) -> dict[str, _Strata]:
    """Return scores of which high ones are better, of several tasks scaled to 0 to 1 on each."""
    scores: dict[str, dict[str, list[float]]] = {}
    for label, own in groups.items():
        for curve in own:
            by_label = scores.setdefault(curve.seed.task, {})
            by_label.setdefault(label, []).append(higher * curve.score)
    strata: dict[str, _Strata] = {label: {} for label in groups}
    for task, by_label in sorted(scores.items()):
        every = np.concatenate(list(by_label.values()))
        low, width = (every.min(), np.ptp(every) or 1.0) if len(scores) > 1 else (0.0, 1.0)
        for label, values in by_label.items():
            strata[label][task] = (np.array(values) - low) / width
    return strata


def _compared(
    strata: Mapping[str, _Strata], baseline: str, sign: float, *, decidable: bool
) -> dict[str, Comparison]:
    """Return comparisons with the baseline; without `decidable`, all verdicts are undecided."""
    base = strata[baseline]
    found: dict[str, Comparison] = {}
    for label, own in strata.items():
        shared = [task for task in own if task in base]
        if shared and label != baseline:
            both = ([each[task] for task in shared] for each in (own, base))
            found[label] = statistics.compare_strata(*both)
    adjusted = statistics.holm([each.p for each in found.values()])
    for (label, each), p in zip(list(found.items()), adjusted, strict=True):
        shown = _signed(Estimate(each.difference, each.difference_interval), sign)
        found[label] = each._replace(
            conclusion=statistics.verdict(each, p) if decidable else "undecided",
            difference=shown.value,
            difference_interval=shown.interval,
            p=p,
        )
    return found


def _signed(estimate: Estimate, sign: float) -> Estimate:
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))
