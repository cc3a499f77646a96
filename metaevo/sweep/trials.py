"""From what a sampler suggests to settings, and to groups that share a compiled program.

A trial's settings are the sweep's with the suggested ones in their places. Who trains them is an
`Executor`: `trainings.py` has those of learners, `evolutions.py` that of whole evolutions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from metaevo.config import ConfigError, from_dict, merge, to_dict
from metaevo.runs.files import plain
from metaevo.sweep.settings import SearchSettings
from metaevo.tuning.objective import objective
from metaevo.tuning.space import Space
from metaevo.tuning.study import Trial

S = TypeVar("S", bound=SearchSettings)

Progress = Callable[[int], Any]
"""Called with the environment steps just done; may raise to stop."""


class Outcome(NamedTuple):
    """The outcome of one trial."""

    outcome: Literal["complete", "pruned", "failed"]
    """complete, pruned (stopped early, or an agent diverged) or failed (could not be run)"""
    value: float | None
    """the objective; None where an agent diverged"""
    attributes: dict[str, Any]
    """what the study keeps: scores, frames, the fraction of the training done, a reason"""
    curve: tuple[np.ndarray, np.ndarray] | None = None
    """environment steps [points] and mean returns [seeds, points]"""


class Watch(NamedTuple):
    """What an executor calls as it goes."""

    done: Callable[[Trial, Outcome], None]
    """of every trial as soon as it is decided"""
    report: Callable[[Trial, int, float], None]
    """the objective at a rung: the trial, environment steps so far, the value"""
    progress: Progress
    group: Callable[[int, int, str], Any]
    """which static group is trained now: its number, how many there are, what it is"""


class Executor(Protocol):
    """Trains batches of trials."""

    def batch_size(self, first_index: int, remaining: int) -> int:
        """Return how many trials to ask for, given the design index of the first one."""

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train a batch; `watch.done` is called exactly once for every trial."""


class Trials(Generic[S]):
    """What trials are: settings, what of them is static, and whether they fit together."""

    def __init__(self, settings: S, space: Space):
        """Bind the sweep's settings; nothing is built yet.

        Args:
            settings: of the sweep.
            space: what is tried.
        """
        self.settings, self.space = settings, space
        self.config = settings.sweep
        self._raw = to_dict(settings)

    def settings_of(self, params: dict[str, Any]) -> S:
        """Return the settings of a trial.

        Raises:
            ConfigError: if they do not go together.
        """
        return from_dict(type(self.settings), merge(self._raw, self.space.settings(params)))

    def static_key(self, settings: S) -> str:
        """Return a text that two settings share if one compiled program serves both."""
        raise NotImplementedError

    def check(self, settings: S) -> None:
        """Find out before anything compiles whether the parts of a trial fit.

        Raises:
            ConfigError: if they do not.
        """
        raise NotImplementedError

    def confirm(
        self, params: Sequence[dict[str, Any]], seeds: int, progress: Progress
    ) -> list[tuple[np.ndarray, int]]:
        """Train some settings on seeds that no search has seen.

        Returns:
            of each its scores [seeds], and how many of its agents diverged.
        """
        raise NotImplementedError

    def frames(self, settings: S) -> int:
        """Return the environment steps of a trial on one seed, to its end."""
        raise NotImplementedError

    def finished(
        self,
        scores: np.ndarray,
        settings: S,
        diverged: int,
        curve: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Outcome:
        """Return the outcome of a trial that ran to its end; scores are [seeds]."""
        value = objective(scores, self.config)
        attributes = {
            "scores": plain_scores(scores),
            "frames": self.frames(settings) * len(scores),
            "fraction": 1.0,
            "diverged": diverged,
        }
        return Outcome("pruned" if value is None else "complete", value, attributes, curve)


AnyTrials = Trials[Any]
"""Trials that are trainings, or evolutions."""


class Group(NamedTuple, Generic[S]):
    """Trials of one batch that share a compiled program."""

    name: str
    """the static settings that were suggested"""
    trials: list[Trial]
    settings: list[S]
    """of each trial"""


def by_static_settings(trials: Trials[S], batch: Sequence[Trial], watch: Watch) -> list[Group[S]]:
    """Sort a batch into groups; trials whose settings do not fit are reported as failed."""
    groups: dict[str, Group[S]] = {}
    for trial in batch:
        try:
            settings = trials.settings_of(trial.params)
            key = trials.static_key(settings)
            if key not in groups:
                trials.check(settings)
        except ConfigError as error:
            watch.done(trial, Outcome("failed", None, {"reason": str(error), "frames": 0}))
            continue
        group = groups.setdefault(key, Group(_name(trials.space, trial), [], []))
        group.trials.append(trial)
        group.settings.append(settings)
    return list(groups.values())


def _name(space: Space, trial: Trial) -> str:
    return ", ".join(f"{name} = {trial.params[name]}" for name in space.static)


def plain_scores(scores: np.ndarray) -> list[float | None]:
    """Return scores [seeds] as every storage can hold them: None where an agent diverged."""
    kept: list[float | None] = plain(scores)
    return kept
