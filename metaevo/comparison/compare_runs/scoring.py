"""The scores of seeds, on a scale that their tasks share, and the best one that there could be."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.directions import EVALUATION, direction
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.seed_run import FloatArray, SeedRun
from metaevo.comparison.compare_runs.selection import Selection
from metaevo.config import ConfigError

_BEST_POSSIBLE = {"CartPole-v1": 500.0, "Catch-bsuite": 1.0, "FourRooms-misc": 1.0}
"""Mean returns that no agent can exceed, in environments with their default parameters."""


@dataclass(frozen=True)
class Scored:
    """A group with its scores."""

    group: Group
    scores: dict[str, FloatArray]
    """by task, [seeds], as they were recorded"""
    strata: dict[str, FloatArray]
    """by task, comparable over tasks: if there are several, 0 for the worst and 1 for the best"""
    sign: int = 1
    """-1 where low values of the strata are better"""
    complete: bool = True
    """whether no run with an unknown score had to be left out"""

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.group.label

    @property
    def count(self) -> int:
        """Seeds, of all tasks."""
        return sum(map(len, self.scores.values()))


def score(
    groups: Sequence[Group], chosen: Selection, how: curves.Score, notes: list[str]
) -> list[Scored]:
    """Scores of all groups; a seed without one gets the worst of its task, if that is known."""
    lower = chosen.lower_is_better

    def of(seed: SeedRun) -> float:
        if chosen.metric == EVALUATION:
            return next(iter(seed.scores.values()))
        x, y = curves.curve(seed, chosen.metric, chosen.axis)
        end = curves.reach(seed, chosen.axis) if chosen.full_length else chosen.ends[seed.task]
        return curves.score(x, y, end, how, lower_is_better=lower)

    known = {id(seed): of(seed) for each in groups for seed in each.seeds}
    lost = {each.label for each in groups if not all(np.isfinite(known[id(s)]) for s in each.seeds)}
    tasks = sorted({task for each in groups for task in each.tasks})
    for task in tasks:
        values = [known[id(s)] for each in groups for s in each.seeds if s.task == task]
        missing = int((~np.isfinite(values)).sum())
        if missing == len(values):
            raise ConfigError(f"no run has a value of {chosen.metric} to be judged by yet")
        if missing:
            notes.append(
                f"{missing} of {len(values)} seeds{_on(task)} have no score (they diverged, or no "
                f"episode finished); {_fate(chosen)}"
            )
    if direction(chosen.metric) is None:
        groups = [
            Group(each.label, [s for s in each.seeds if np.isfinite(known[id(s)])])
            for each in groups
        ]
        groups = [each for each in groups if each.seeds]

    def of_task(each: Group, task: str) -> FloatArray:
        return np.array([known[id(seed)] for seed in each.seeds if seed.task == task])

    sign = -1.0 if lower else 1.0
    filled: list[dict[str, FloatArray]] = [{} for _ in groups]
    worst, best = {}, {}
    for task in tasks:
        known_of = {i: sign * of_task(g, task) for i, g in enumerate(groups) if task in g.tasks}
        for index, complete in statistics.fill_missing(known_of).items():
            filled[index][task] = sign * complete
        every = np.concatenate([sign * each[task] for each in filled if task in each])
        worst[task], best[task] = sign * float(every.min()), sign * float(every.max())
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
        Scored(
            each,
            scores,
            {task: scaled(task, values) for task, values in scores.items()},
            sign=-1 if lower and len(tasks) == 1 else 1,
            complete=direction(chosen.metric) is not None or each.label not in lost,
        )
        for each, scores in zip(groups, filled, strict=True)
    ]


def _fate(chosen: Selection) -> str:
    """What becomes of seeds without a score."""
    if direction(chosen.metric) is not None:
        return "they count as the worst one"
    return (
        f"whether high or low values of {chosen.metric} are better is not known, so that they are "
        "left out and nothing is claimed about their groups"
    )


def _on(task: str) -> str:
    return f" on {task}" if task else ""


def best_score(
    scored: Sequence[Scored], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str]:
    """The score that the gap is measured from, by task, and where it comes from."""
    tasks = sorted({task for each in scored for task in each.scores})
    if given is not None:
        return dict.fromkeys(tasks, given), "given"
    returns = chosen.metric in ("mean_return", EVALUATION)
    if returns and all(task in _BEST_POSSIBLE for task in tasks):
        return {task: _BEST_POSSIBLE[task] for task in tasks}, "the best possible return"
    low = chosen.lower_is_better
    best = {
        task: (min if low else max)(
            float(value) for each in scored if task in each.scores for value in each.scores[task]
        )
        for task in tasks
    }
    return best, f"the {'lowest' if low else 'highest'} score of any seed"


def comparable(
    optimum: dict[str, float], scored: Sequence[Scored], lower_is_better: bool
) -> dict[str, float]:
    """The optimum on the scale of the strata, which is linear in the scores."""
    if len(optimum) == 1:
        return optimum
    result = {}
    for task, value in optimum.items():
        every = np.concatenate([each.scores[task] for each in scored if task in each.scores])
        worst, best = float(every.min()), float(every.max())
        if lower_is_better:
            worst, best = best, worst
        result[task] = (value - worst) / ((best - worst) or 1.0)
    return result
