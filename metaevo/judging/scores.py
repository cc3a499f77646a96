"""The result of a judgement: the scores of every agent that it trained."""

import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metaevo.config import ConfigError, files
from metaevo.judging import figure, resampling, tables
from metaevo.judging.resampling import Curve, Tuning, View, interval
from metaevo.judging.verdict import Verdict, judged
from metaevo.statistics.intervals import Estimate
from metaevo.statistics.scores import FloatArray


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file by their names.

    Raises:
        ConfigError: if it cannot be read, or is damaged.
    """
    try:
        with np.load(io.BytesIO(files.read(Path(path))), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (AttributeError, EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


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
        learned is better than huber: +7.9 [4.1, 11.2] after 256 settings each.
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

    @classmethod
    def of(
        cls,
        held_out: Mapping[str, ArrayLike],
        groups: Mapping[str, str] | None = None,
        tasks: Sequence[str] = ("task",),
        *,
        scale: ArrayLike | None = None,
        frames: int = 0,
    ) -> "Scores":
        """Return the scores of contenders without tuning.

        Args:
            held_out: by contender [seeds], or [T, seeds] on several tasks.
            groups: of evolved contenders, by their names.
            tasks: names.
            scale: [T, 2], see the class.
            frames: environment steps that the judgement took.
        """
        rows = [np.reshape(each, (len(tasks), 1, -1)) for each in held_out.values()]
        scores = np.stack(rows).astype(np.float64)
        front = scores.shape[:3]
        return cls(
            contenders=tuple(held_out),
            groups=tuple((groups or {}).get(name, "") for name in held_out),
            tasks=tuple(tasks),
            screening=np.empty((*front, 0)),
            finalists=np.zeros(front, int),
            selection=np.empty((*front, 0)),
            held_out=scores,
            scale=None if scale is None else np.asarray(scale, np.float64),
            frames=frames,
        )

    def on(self, tasks: Sequence[str]) -> "Scores":
        """Return the scores on some of the tasks."""
        places = [self.tasks.index(task) for task in tasks]
        kept: dict[str, Any] = {"tasks": tuple(tasks)}
        for name in ("screening", "finalists", "selection", "held_out", "curves"):
            array = getattr(self, name)
            kept[name] = None if array is None else array[:, places]
        for name in ("scale", "steps"):
            array = getattr(self, name)
            kept[name] = None if array is None else array[places]
        return replace(self, **kept)

    def joined(self, others: "Scores") -> "Scores":
        """Return the scores with further contenders, judged alone with the same tasks and budget.

        They have the scale of this judgement, and no settings and curves.
        """
        both = (self, others)
        kept: dict[str, Any] = {"settings": None, "curves": None, "steps": None, "hyperparams": ()}
        for name in ("screening", "finalists", "selection", "held_out"):
            kept[name] = np.concatenate([getattr(each, name) for each in both])
        for name in ("contenders", "groups", "frames"):
            kept[name] = getattr(self, name) + getattr(others, name)
        return replace(self, **kept)

    @property
    def tried(self) -> int:
        """Number of settings that each contender tried in addition to the untuned one."""
        return self.screening.shape[2] - 1

    @property
    def seeds(self) -> int:
        """Number of held-out seeds."""
        return self.held_out.shape[3]

    @property
    def agents(self) -> int:
        """Number of agents that were trained."""
        finals = int((self.finalists >= 0).sum())
        tuned = (self.finalists > 0).any(axis=2) if self.tried else np.zeros(1)
        settings = int(np.where(tuned, self.tried + 1, 1).sum()) if self.tried else 0
        seeds = self.selection.shape[3] + self.seeds
        return settings * self.screening.shape[3] + finals * seeds

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
        members = self._members(name)
        value, deviations = self._view(task).sample(members)
        return Estimate(value, interval(value, deviations, len(members)))

    def difference(self, name: str, other: str, task: str | None = None) -> Estimate:
        """Return the score of a contender or group minus that of another, with its 95% interval."""
        (value, deviations), (base, others) = self._samples((name, other), task)
        value, deviations = value - base, deviations - others
        return Estimate(value, interval(value, deviations, self._units(name, other)))

    def expected(self, name: str, task: str | None = None) -> Curve:
        """Return the expected score against the number of settings, as if only so many were tried.

        The same share of the finalists is in the final; a mean over subsets of them, over tasks and
        over members. The first point is the untuned setting, and the last one all settings.
        """
        view = self._view(task)
        curves = [
            resampling.expected(tuning, weights)
            for member in self._members(name)
            for tuning, weights in zip(view.tunings[member], view.drawn.selection, strict=True)
        ]
        return Curve(np.linspace(0, self.tried, len(curves[0])), np.mean(curves, axis=0))

    def winner(self, name: str, task: str | None = None) -> int:
        """Return the index of the setting that a contender would use on a task, 0 for untuned."""
        (member,) = self._members(name)
        place = self.tasks.index(task) if task else 0
        return int(self.finalists[member, place, self.finalist(member, place)])

    def held_out_of(self, name: str) -> FloatArray:
        """Return the held-out scores [seeds] of a contender's winners, means over scaled tasks."""
        (member,) = self._members(name)
        places = [self.tasks.index(task) for task in self.pooled]
        rows = [
            self._tunings(place, scaled=True)[member].held_out[self.finalist(member, place)]
            for place in places
        ]
        return np.mean(rows, axis=0)

    def untuned(self, name: str) -> float:
        """Return the mean score of a contender in its untuned setting, over all tasks (scaled)."""
        (member,) = self._members(name)
        places = [self.tasks.index(task) for task in self.pooled]
        tunings = [self._tunings(place, scaled=True)[member] for place in places]
        return float(np.mean([each.held_out[0] for each in tunings]))

    def finalist(self, member: int, place: int) -> int:
        """Return the place of the winner among the finalists, by places of contender and task."""
        selection = self.selection[member, place]
        weights = np.full((1, selection.shape[1]), 1 / max(1, selection.shape[1]))
        return int(resampling.means(self._tunings(place)[member], weights).argmax())

    def verdict(
        self,
        name: str | None = None,
        task: str | None = None,
        *,
        against: Sequence[str] = (),
        margin: float = 0.0,
    ) -> Verdict:
        """Judge a contender or a group against all hand-written contenders.

        Args:
            name: by default the first group, or the first contender if there are no groups.
            task: by default all tasks together.
            against: other contenders to compare with.
            margin: a loss below this is "not worse".
        """
        name = name or (self.discoveries or self.contenders)[0]
        others = [each for each in against or self.baselines if each != name]
        if not others:
            raise ValueError(f"{name}: no hand-written contender to compare with")
        (value, deviations), *samples = self._samples((name, *others), task)
        differences = np.array([value - base for base, _ in samples])
        redrawn = np.stack([deviations - each for _, each in samples])
        units = self._units(name, *others)
        lows = [interval(d, r, units)[0] for d, r in zip(differences, redrawn, strict=True)]
        best = int(differences.argmin())
        high = interval(float(differences[best]), redrawn.max(axis=0), units)[1]
        rise, *rises = (self._rise(each, task) for each in (name, *others))
        return judged(
            name=name,
            baselines=tuple(others),
            differences=differences,
            lows=np.array(lows),
            high=float(high),
            drifts=rise - np.array(rises),
            settings=self.tried,
            seeds=self.seeds,
            margin=margin,
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Write all arrays and names to an .npz file, replaced atomically."""
        path = Path(path)
        with files.replacing(path) as file:
            np.savez_compressed(file, **self.arrays())
        return path

    def arrays(self) -> dict[str, Any]:
        """Return what `save` writes: all fields that are not None."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Scores":
        """Read a file that `save` or a judgement wrote.

        Raises:
            ConfigError: if it is damaged.
            UnfinishedError: if it is of a judgement that is not finished.
        """
        names = [each.name for each in fields(cls)]
        saved = read_arrays(path)
        try:
            finished = "done" not in saved or saved["done"] == saved["total"]
            values: dict[str, Any] = {name: saved[name] for name in names if name in saved}
            for name in ("contenders", "groups", "tasks", "hyperparams"):
                values[name] = tuple(values[name].tolist())
            found = cls(**{**values, "frames": int(values["frames"])})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from None
        if not finished:
            raise UnfinishedError(f"{path}: is of a judgement that is not finished")
        return found

    def table(self, task: str | None = None) -> str:
        """Return a table of all contenders, on a task or over all of them, for the terminal."""
        return tables.contenders(self, task, "").text()

    def plot(self, path: str | os.PathLike, task: str | None = None) -> Path:
        """Draw the scores, and how they depend on the number of settings; returns `path`."""
        return figure.plot(self, Path(path), task)

    def plot_curves(self, path: str | os.PathLike) -> Path:
        """Draw the learning curves of the winners, if there are any; returns `path`."""
        if self.curves is None or self.steps is None or not self.steps.size:
            raise ValueError("curves: the contenders are no learners")
        return figure.plot_curves(self, Path(path))

    # --- Resamples ------------------------------------------------------------------------------

    @cached_property
    def _views(self) -> dict[str | None, View]:
        return {}

    def _view(self, task: str | None) -> View:
        if task is not None and task not in self.tasks:
            raise ValueError(f"task = {task!r}: must be one of {', '.join(self.tasks)}")
        if task not in self._views:
            pooled = self.pooled if task is None else [task]
            if not pooled:
                raise ValueError(
                    f"on none of {', '.join(self.tasks)} is the reference better than random play, "
                    "so there is no scale"
                )
            places = [self.tasks.index(each) for each in pooled]
            by_task = [self._tunings(place, scaled=task is None) for place in places]
            self._views[task] = View.of([list(each) for each in zip(*by_task, strict=True)])
        return self._views[task]

    def _tunings(self, place: int, *, scaled: bool = False) -> list[Tuning]:
        """Return the scores of all contenders on a task, with the missing held-out ones filled."""
        low, high = 0.0, 1.0
        if scaled and self.scale is not None:
            low, high = self.scale[place]
        arrays = (self.screening, self.selection, self.held_out)
        screening, selection, held_out = ((each[:, place] - low) / (high - low) for each in arrays)
        present = held_out[np.isfinite(held_out)]
        held_out = np.where(np.isfinite(held_out), held_out, present.min() if present.size else 0.0)
        rows = zip(screening, self.finalists[:, place], selection, held_out, strict=True)
        return [Tuning(*row) for row in rows]

    def _members(self, name: str) -> list[int]:
        if name in self.contenders:
            return [self.contenders.index(name)]
        members = [place for place, group in enumerate(self.groups) if group == name and name]
        if not members:
            known = ", ".join(dict.fromkeys((*self.discoveries, *self.contenders)))
            raise ValueError(f"{name!r}: must be one of {known}")
        return members

    def _rise(self, name: str, task: str | None) -> float:
        """Return the expected gain from the second half of the settings."""
        curve = self.expected(name, task)
        return float(curve.scores[-1]) - curve.half

    def _samples(self, names: Sequence[str], task: str | None) -> list[tuple[float, FloatArray]]:
        view = self._view(task)
        return [view.sample(self._members(name)) for name in names]

    def _units(self, *names: str) -> int:
        """Return the smallest number of members of a group with several; 1 without one."""
        return min((n for n in (len(self._members(name)) for name in names) if n > 1), default=1)
