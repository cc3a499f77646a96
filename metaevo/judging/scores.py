"""The result of a judgement: the scores of every agent that it trained, intervals and verdicts."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from metaevo.config import ConfigError
from metaevo.judging.verdicts import (
    FEWEST_SEEDS,
    FEWEST_SETTINGS,
    Curve,
    Resamples,
    Sample,
    Verdict,
    Word,
)
from metaevo.runs.checkpoint import load_tree, save_tree
from metaevo.statistics import Estimate, FloatArray, fill_missing

NAMES = "contenders", "groups", "tasks", "hyperparams"
"""Fields with names."""


class UnfinishedError(ConfigError):
    """A file has the scores of a judgement that was interrupted, or goes on."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of contenders on tasks; the sizes are C, T, N settings, K finalists.

    Every setting trained on the screening seeds. The finalists trained on fresh selection seeds,
    which choose the winner, and on the held-out seeds, on which winners are compared. Settings and
    seeds are the same for all contenders. NaN is no score (the agent diverged, or no episode
    finished): such a setting cannot win, and on the held-out seeds it counts as the worst score of
    any contender on the task.

    Without tuning N = K = 1, with no screening and no selection seeds. A contender that was not
    tuned, among others that were, has the untuned setting as its only finalist.

    Examples:
        >>> scores = Scores.load("scores.npz")
        >>> print(scores.verdict())
        learned is better than huber after 256 settings each.
        >>> scores.difference("learned", "squared").interval
        (4.3, 11.0)

    Raises:
        ValueError: names or shapes do not fit together.
    """

    contenders: tuple[str, ...]
    """[C] names"""
    groups: tuple[str, ...]
    """[C] for an evolved contender the name of its discovery, of which there may be several
    evolutions; "" for a hand-written one"""
    tasks: tuple[str, ...]
    """[T] names"""
    screening: FloatArray
    """[C, T, N, screening seeds]; setting 0 is untuned"""
    finalists: np.ndarray
    """[C, T, K] indices of settings, 0 first; -1 for none"""
    selection: FloatArray
    """[C, T, K, selection seeds]"""
    held_out: FloatArray
    """[C, T, K, held-out seeds]"""
    hyperparams: tuple[str, ...] = ()
    """[P] names of the tuned hyperparameters"""
    settings: FloatArray | None = None
    """[C, N, P] their values, NaN where a contender does not have one"""
    scale: FloatArray | None = None
    """[T, 2] scores that count as 0 (random play) and 1 (the tuned reference), for scores over
    all tasks; by default scores are pooled as they are. NaN for a task without a scale, because
    the reference is no better than random play: it is not pooled"""
    frames: int = 0
    """environment steps that the judgement took"""
    curves: FloatArray | None = None
    """[C, T, K, points] mean returns of the episodes that finished, over the held-out seeds; NaN
    where there was none"""
    steps: FloatArray | None = None
    """[T, points] environment steps of an agent at these points; NaN after the last"""

    resamples: ClassVar[int] = 1000
    """of all intervals"""

    def __post_init__(self) -> None:
        count, tasks = len(self.contenders), len(self.tasks)
        settings, finalists = self.screening.shape[2], self.finalists.shape[2]
        shapes = {
            "screening": (count, tasks, settings, None),
            "finalists": (count, tasks, finalists),
            "selection": (count, tasks, finalists, None),
            "held_out": (count, tasks, finalists, None),
            "settings": (count, settings, len(self.hyperparams)),
            "scale": (tasks, 2),
            "curves": (count, tasks, finalists, None),
            "steps": (tasks, None),
        }
        for name, shape in shapes.items():
            array = getattr(self, name)
            wanted = tuple(size or array.shape[-1] for size in shape) if array is not None else None
            if array is not None and array.shape != wanted:
                raise ValueError(f"{name} has shape {array.shape}: must be {shape}")
        if len(self.groups) != count or len(set(self.contenders)) != count or not count:
            raise ValueError(
                f"contenders = {self.contenders}: must be different names, with groups"
            )
        if self.held_out.shape[-1] < 1 or (self.finalists[..., 0] != 0).any():
            raise ValueError("finalists must begin with setting 0 and have held-out scores")

    @property
    def tried(self) -> int:
        """Number of settings that each contender tried in addition to the untuned one."""
        return self.screening.shape[2] - 1

    @property
    def seeds(self) -> int:
        """Number of held-out seeds."""
        return self.held_out.shape[3]

    @property
    def discoveries(self) -> tuple[str, ...]:
        """Names of the groups of evolved contenders."""
        return tuple(dict.fromkeys(filter(None, self.groups)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the hand-written contenders."""
        pairs = zip(self.contenders, self.groups, strict=True)
        return tuple(name for name, group in pairs if not group)

    @property
    def pooled(self) -> tuple[str, ...]:
        """Names of the tasks that scores over all tasks pool: those with a scale."""
        if self.scale is None:
            return self.tasks
        has_scale = np.isfinite(self.scale[:, 0])
        return tuple(task for task, has in zip(self.tasks, has_scale, strict=True) if has)

    def iqm(self, name: str, task: str | None = None) -> Estimate:
        """Return the score of a contender or a group, with its 95% interval.

        The expected interquartile mean of the winner on the held-out seeds, over all tasks (scaled)
        or on one; of a group the mean over its members. The interval carries the luck of tuning and
        of seeds, and with several members the variation between evolutions.
        """
        return self._estimate(self._sample(name, task), name)

    def difference(self, name: str, other: str, task: str | None = None) -> Estimate:
        """Return the score of a contender or group minus that of another, with its 95% interval."""
        found = self._sample(name, task).minus(self._sample(other, task))
        return self._estimate(found, name, other)

    def expected(self, name: str, task: str | None = None) -> Curve:
        """Return the expected score against the number of settings, as if only so many were tried.

        The same share of the finalists is in the final; a mean over subsets of them, over tasks and
        over members. The first point is the untuned setting, and the last one all settings.
        """
        curves = [self._resampled(task).expected(each) for each in self._members(name)]
        return Curve(np.linspace(0, self.tried, len(curves[0])), np.mean(curves, axis=0))

    def winner(self, name: str, task: str | None = None) -> int:
        """Return the index of the setting that a contender would use on a task, 0 for untuned."""
        (member,) = self._members(name)
        place = self.tasks.index(task) if task else 0
        return int(self.finalists[member, place, self.winners[member, place]])

    def setting(self, contender: int, index: int) -> dict[str, float]:
        """Return the hyperparameters of a contender in a setting; the untuned one, 0, has none."""
        if self.settings is None:
            return {}
        values = zip(self.hyperparams, self.settings[contender, index].tolist(), strict=True)
        return {name: value for name, value in values if np.isfinite(value)}

    @property
    def winners(self) -> np.ndarray:
        """[C, T] places of the winners among the finalists."""
        totals = self.selection.sum(axis=3)
        return np.where(np.isfinite(totals), totals, -np.inf).argmax(axis=2)

    def untuned(self, name: str) -> float:
        """Return the mean held-out score of a contender's untuned setting on all tasks (scaled)."""
        (member,) = self._members(name)
        places = [self.tasks.index(task) for task in self.pooled]
        return float(self._scores_on(places, scaled=True)[1][member, :, 0].mean())

    def verdict(
        self, name: str | None = None, task: str | None = None, *, margin: float = 0.0
    ) -> Verdict:
        """Judge the first group, or a contender or group, against all hand-written contenders.

        A loss below `margin` is "not worse".

        - "better" must hold against every baseline (an intersection-union test, Berger 1982), and
          still hold if the number of settings doubled once more and every difference changed by as
          much as it did when this number was last doubled. "worse" is symmetric, with an interval
          that allows for the choice of the best baseline.
        - A difference that would not hold, or a small judgement, is "too few to conclude".
        """
        name = name or (self.discoveries or self.contenders)[0]
        others = [each for each in self.baselines if each != name]
        if not others:
            raise ValueError(f"{name}: no hand-written contender to compare with")
        own, units = self._sample(name, task), self._units(name, *others)
        found = [own.minus(self._sample(each, task)) for each in others]
        lows = np.array([each.interval(units)[0] for each in found])
        rises = [self.expected(each, task) for each in (name, *others)]
        rise, *others_rise = (float(each.scores[-1]) - each.half for each in rises)
        drifts = rise - np.array(others_rise)
        best = int(np.argmin([each.value for each in found]))
        largest = np.stack([each.deviations for each in found]).max(axis=0)
        difference, drift = found[best].value, float(drifts[best])
        low, high = float(lows.min()), float(Sample(difference, largest).interval(units)[1])
        word: Word = "undecided"
        if self.seeds < FEWEST_SEEDS or 0 < self.tried < FEWEST_SETTINGS:
            word = "too few to conclude"
        elif low > 0:
            lasts = (lows + np.minimum(drifts, 0.0) > 0).all()
            word = "better" if lasts else "too few to conclude"
        elif high < 0:
            word = "worse" if high + max(drift, 0.0) < 0 else "too few to conclude"
        elif low > -margin:
            word = "not worse"
        numbers = difference, (low, high), self.tried, drift
        return Verdict(word, name, others[best], *numbers, margin)

    def save(self, path: str | os.PathLike) -> Path:
        """Write all arrays and names to an .npz file."""
        save_tree(Path(path), self.arrays(), self.about())
        return Path(path)

    def about(self) -> dict[str, Any]:
        """Return all names, and the frames, by field."""
        return {name: getattr(self, name) for name in (*NAMES, "frames")}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Scores":
        """Read a file that `save` or a judgement wrote.

        Raises:
            ConfigError: if it is damaged.
            UnfinishedError: if it is of a judgement that is not finished.
        """
        arrays, about = load_tree(Path(path))
        try:
            names: Any = {name: tuple(about[name]) for name in NAMES}
            found = cls(**arrays, **names, frames=about["frames"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from None
        if about.get("done") != about.get("total"):
            raise UnfinishedError(f"{path}: is of a judgement that is not finished")
        return found

    def table(self, task: str | None = None) -> str:
        """Return a table of all contenders, on a task or over all of them, for the terminal."""
        from metaevo.judging import tables

        return tables.contenders(self, task, "").text()

    def plot(self, path: str | os.PathLike, task: str | None = None) -> Path:
        """Draw the scores, and how they depend on the number of settings; returns `path`."""
        from metaevo.judging import tables

        return tables.plot_scores(self, Path(path), task)

    # --- Resamples ------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> dict[str | None, Resamples]:
        return {}

    def _resampled(self, task: str | None) -> Resamples:
        """Return the resamples on a task, or over all."""
        if task is not None and task not in self.tasks:
            raise ValueError(f"task = {task!r}: must be one of {', '.join(self.tasks)}")
        if task not in self._known:
            pooled = self.pooled if task is None else [task]
            if not pooled:
                raise ValueError(
                    f"on none of {', '.join(self.tasks)} is the reference better than random play, "
                    "so there is no scale"
                )
            places = [self.tasks.index(each) for each in pooled]
            scores = self._scores_on(places, scaled=task is None)
            finalists, count = self.finalists[:, places], self.tried + 1
            self._known[task] = Resamples(count, finalists, *scores, self.resamples)
        return self._known[task]

    def _scores_on(self, places: Sequence[int], *, scaled: bool) -> tuple[FloatArray, FloatArray]:
        """Return selection and held-out scores on some tasks, with missing held-out ones filled."""
        low, high = np.zeros(len(places)), np.ones(len(places))
        if scaled and self.scale is not None:
            low, high = self.scale[places].T
        low, high = low[:, np.newaxis, np.newaxis], high[:, np.newaxis, np.newaxis]
        arrays = (self.selection, self.held_out)
        selection, held_out = ((each[:, places] - low) / (high - low) for each in arrays)
        return selection, fill_missing(held_out, axis=(0, 2, 3))

    def _members(self, name: str) -> list[int]:
        if name in self.contenders:
            return [self.contenders.index(name)]
        members = [place for place, group in enumerate(self.groups) if group == name and name]
        if not members:
            known = ", ".join(dict.fromkeys((*self.discoveries, *self.contenders)))
            raise ValueError(f"{name!r}: must be one of {known}")
        return members

    def _sample(self, name: str, task: str | None) -> Sample:
        return self._resampled(task).sample(self._members(name))

    def _estimate(self, sample: Sample, *names: str) -> Estimate:
        return Estimate(sample.value, sample.interval(self._units(*names)))

    def _units(self, *names: str) -> int:
        """Return the smallest number of members of a group with several; 1 without one."""
        return min((n for n in (len(self._members(name)) for name in names) if n > 1), default=1)
