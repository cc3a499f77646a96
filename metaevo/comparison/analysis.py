"""Compare recorded runs: scores of groups of seeds, and their differences from a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from metaevo import statistics
from metaevo.comparison import curves, grouping, sources
from metaevo.comparison.grouping import Group
from metaevo.comparison.seed_run import SeedRun, Source
from metaevo.comparison.selection import Selection, select
from metaevo.config import ConfigError, show
from metaevo.config.plain import PlainDict, listed
from metaevo.reports.numbers import counted
from metaevo.statistics import Comparison, Estimate

Scores = dict[SeedRun, float]
COMPARED = "difference", "verdict", "probability_of_improvement", "p"
"""Columns of a table about the comparison with the baseline."""


@dataclass(frozen=True)
class GroupResult(Group):
    """Statistics of a group; over several tasks, of the scaled scores."""

    iqm: Estimate
    comparison: Comparison | None = None
    """with the baseline on the tasks that both have, p adjusted by Holm's method for all groups;
    None for the baseline, and for a group that shares no task with it"""


@dataclass(frozen=True)
class RunComparison:
    """The result of `compare_runs`."""

    sources: list[Source] = field(repr=False)
    selection: Selection = field(repr=False)
    score: curves.Score
    """how curves were reduced to scores"""
    scores: Scores = field(repr=False)
    """as recorded; a missing score is the worst one of its task"""
    groups: list[GroupResult]
    """best first"""
    baseline: str
    """label of the group of the first run"""
    middles: dict[str, dict[str, curves.Middle]] = field(repr=False)
    """by task and by the label of the group"""
    notes: list[str]
    """about left-out runs, scaling and missing scores"""

    @property
    def seeds(self) -> list[SeedRun]:
        """All seeds, in the order of the groups."""
        return [seed for each in self.groups for seed in each.seeds]

    @property
    def tasks(self) -> list[str]:
        """All tasks."""
        return sorted({seed.task for seed in self.seeds})

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
                {"group": each.label, "task": seed.task, "run": seed.run, "seed": seed.seed,
                 "score": self.scores[seed]}
                for each in self.groups
                for seed in each.seeds
            ]  # fmt: skip
        raise ValueError(f"name = {name!r}: must be groups or scores")

    def rows(self) -> list[PlainDict]:
        """Return the table of groups; an interval is a column with its estimate."""
        return [self._row(each) for each in self.groups]

    def _row(self, each: GroupResult) -> PlainDict:
        row: PlainDict = {"group": each.label, "seeds": len(each.seeds), "iqm": each.iqm}
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
                own = [self.scores[seed] for seed in each.on(task)]
                row[task] = statistics.estimate([own]) if own else None
        return row


def compare_runs(
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    score: curves.Score = "final",
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
    if score not in (known := get_args(curves.Score)):
        raise ConfigError(f"score = {show(score)}: must be one of {', '.join(known)}")
    keys = None if group_by is None else tuple(listed(group_by))
    found, notes = sources.read_all([str(run) for run in listed(runs)])
    chosen = select(found, metric, align, full_length, notes)
    by_task = _scores(chosen, score, notes)
    if len(by_task) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    if chosen.direction is None:
        notes.append(
            f"every verdict is undecided, because it is unknown whether high or low values of "
            f"{chosen.metric} are better"
        )
    scaled = _scale(by_task, -1.0 if chosen.lower_is_better else 1.0)
    # High scaled scores are better. Scores on a single task are shown as recorded.
    sign = -1 if chosen.lower_is_better and len(by_task) == 1 else 1
    own = grouping.group(list(scaled), keys)
    first = next(seed for seed in chosen.seeds if seed in scaled)
    baseline = next(each for each in own if first in each.seeds)
    groups = _results(own, baseline, scaled, sign, decidable=chosen.direction is not None)
    return RunComparison(
        found,
        chosen,
        score,
        {seed: value for each in by_task.values() for seed, value in each.items()},
        # The table, legends and plots have this order.
        sorted(groups, key=lambda each: -sign * each.iqm.value),
        baseline.label,
        {} if chosen.is_evaluation else {task: _middles(chosen, own, task) for task in by_task},
        notes,
    )


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


def _scale(scores: Mapping[str, Scores], higher: float) -> Scores:
    """Return scores of which high ones are better, of several tasks scaled to 0 to 1 on each."""
    scaled: Scores = {}
    for own in scores.values():
        values = higher * np.array(list(own.values()))
        if len(scores) > 1:
            values = (values - values.min()) / (np.ptp(values) or 1.0)
        scaled |= zip(own, values.tolist(), strict=True)
    return scaled


def _results(
    groups: Sequence[Group], baseline: Group, scaled: Scores, sign: int, *, decidable: bool
) -> list[GroupResult]:
    """Return the statistics of groups; without `decidable`, all verdicts are undecided."""
    tasks = sorted({seed.task for seed in scaled})
    strata = {
        each.label: {
            task: np.array([scaled[seed] for seed in seeds])
            for task in tasks
            if (seeds := each.on(task))
        }
        for each in groups
    }
    base = strata[baseline.label]
    found: dict[str, Comparison] = {}
    for label, own in strata.items():
        shared = [task for task in own if task in base]
        if shared and label != baseline.label:
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
    return [
        GroupResult(
            each.label,
            each.seeds,
            _signed(statistics.estimate(list(strata[each.label].values())), sign),
            found.get(each.label),
        )
        for each in groups
    ]


def _signed(estimate: Estimate, sign: int) -> Estimate:
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


def _middles(chosen: Selection, groups: Sequence[Group], task: str) -> dict[str, curves.Middle]:
    """Return the middle curves of groups on a task, on common points."""
    own = {each.label: list(map(chosen.curve, each.on(task))) for each in groups if each.on(task)}
    points = curves.grid([each for members in own.values() for each in members])
    return {
        label: curves.middle(points, curves.align(members, points))
        for label, members in own.items()
    }
