"""The scores of seeds, on a scale that their tasks share, and the best score that is possible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.directions import EVALUATION, direction
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.seed_run import FloatArray, SeedRun
from metaevo.comparison.compare_runs.selection import Selection
from metaevo.config import ConfigError
from metaevo.reports.numbers import counted

_BEST_POSSIBLE = {"CartPole-v1": 500.0, "Catch-bsuite": 1.0, "FourRooms-misc": 1.0}
"""Mean returns that no agent can exceed, in environments with their default parameters."""


@dataclass(frozen=True)
class Scored:
    """A group with its scores."""

    group: Group
    scores: dict[str, FloatArray]
    """by task, [seeds], as recorded"""
    strata: dict[str, FloatArray]
    """by task, comparable over tasks: of several tasks, 0 is the worst score and 1 the best"""
    sign: int = 1
    """-1 if low values of the strata are better"""
    complete: bool = True
    """whether no run with an unknown score had to be left out"""

    @property
    def label(self) -> str:
        """The name of the group in tables."""
        return self.group.label

    @property
    def count(self) -> int:
        """Number of seeds, over all tasks."""
        return sum(map(len, self.scores.values()))

    def by_seed(self) -> Iterator[tuple[str, SeedRun, float]]:
        """Yield task, seed and recorded score."""
        for task, values in self.scores.items():
            for seed, value in zip(self.group.on(task), values.tolist(), strict=True):
                yield task, seed, value

    def by_name(self) -> dict[str, dict[str, float]]:
        """Return strata by task and name of the seed; a repeated name has no clear partner."""
        found: dict[str, dict[str, float]] = {}
        for task, values in self.strata.items():
            seeds = self.group.on(task)
            names = [seed.seed for seed in seeds]
            found[task] = {
                seed.seed: float(value)
                for seed, value in zip(seeds, values, strict=True)
                if seed.has_own_seed and names.count(seed.seed) == 1
            }
        return found


def score(
    groups: Sequence[Group], chosen: Selection, how: curves.Score, notes: list[str]
) -> list[Scored]:
    """Score all groups; a seed without a score gets the worst of its task, if that is known.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    lower, directed = chosen.lower_is_better, direction(chosen.metric) is not None
    sign = -1.0 if lower else 1.0
    known = {id(s): _score_of(s, chosen, how) for each in groups for s in each.seeds}
    tasks = sorted({task for each in groups for task in each.tasks})
    for task in tasks:
        values = [known[id(seed)] for each in groups for seed in each.on(task)]
        missing = int((~np.isfinite(values)).sum())
        if missing == len(values):
            raise ConfigError(f"no run has a value of {chosen.metric} to be judged by yet")
        if missing:
            fate = "they count as the worst one" if directed else (
                f"whether high or low values of {chosen.metric} are better is not known, so that "
                "they are left out and nothing is claimed about their groups"
            )  # fmt: skip
            on = f" on {task}" if task else ""
            notes.append(
                f"{missing} of {counted(len(values), 'seed')}{on} have no score (they diverged, or "
                f"no episode finished); {fate}"
            )
    lost = {each.label for each in groups if not all(np.isfinite(known[id(s)]) for s in each.seeds)}
    if not directed:
        groups = [
            Group(each.label, [seed for seed in each.seeds if np.isfinite(known[id(seed)])])
            for each in groups
        ]
    groups = [each for each in groups if each.seeds]
    filled: list[dict[str, FloatArray]] = [{} for _ in groups]
    for task in tasks:
        found = {
            index: sign * np.array([known[id(seed)] for seed in each.on(task)])
            for index, each in enumerate(groups)
            if task in each.tasks
        }
        for index, complete in statistics.fill_missing(found).items():
            filled[index][task] = sign * complete
    if len(tasks) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    ranges = {task: _range([each[task] for each in filled if task in each], lower)
              for task in tasks}  # fmt: skip
    return [
        Scored(
            each,
            scores,
            {t: _scaled(s, *ranges[t]) for t, s in scores.items()} if len(tasks) > 1 else scores,
            sign=-1 if lower and len(tasks) == 1 else 1,
            complete=directed or each.label not in lost,
        )
        for each, scores in zip(groups, filled, strict=True)
    ]


def _score_of(seed: SeedRun, chosen: Selection, how: curves.Score) -> float:
    if chosen.metric == EVALUATION:
        return next(iter(seed.scores.values()))
    x, y = curves.curve(seed, chosen.metric, chosen.axis)
    end = curves.reach(seed, chosen.axis) if chosen.full_length else chosen.ends[seed.task]
    return curves.score(x, y, end, how, lower_is_better=chosen.lower_is_better)


def _range(scores: Sequence[FloatArray], lower_is_better: bool) -> tuple[float, float]:
    """The worst and the best score."""
    every = np.concatenate(scores)
    low, high = float(every.min()), float(every.max())
    return (high, low) if lower_is_better else (low, high)


def _scaled(values: FloatArray, worst: float, best: float) -> FloatArray:
    return (values - worst) / ((best - worst) or 1.0)


def best_score(
    scored: Sequence[Scored], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str, dict[str, float]]:
    """Return the best possible score by task, its source, and the same on the scale of strata."""
    tasks = sorted({task for each in scored for task in each.scores})
    ranges = {
        task: _range([each.scores[task] for each in scored if task in each.scores],
                     chosen.lower_is_better)
        for task in tasks
    }  # fmt: skip
    if given is not None:
        best, source = dict.fromkeys(tasks, given), "given"
    elif chosen.metric in ("mean_return", EVALUATION) and set(tasks) <= set(_BEST_POSSIBLE):
        best, source = {task: _BEST_POSSIBLE[task] for task in tasks}, "the best possible return"
    else:
        best = {task: ranges[task][1] for task in tasks}
        source = f"the {'lowest' if chosen.lower_is_better else 'highest'} score of any seed"
    if len(tasks) == 1:
        return best, source, best
    scaled = {task: float(_scaled(np.array(best[task]), *ranges[task])) for task in tasks}
    return best, source, scaled
