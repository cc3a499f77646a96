"""Objectives of a sweep: a function of settings, trainings of agents, or whole evolutions.

A sweep uses `Objective` only. Trainings are in `metaevo.training.sweeps`, evolutions in
`metaevo.studies.sweeps`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from metaevo.config import ConfigError, files, flatten, from_dict, merge, to_dict
from metaevo.statistics import iqm
from metaevo.tuning.config import OF_THE_SWEEP, SearchSettings, SweepConfig
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import expected_share, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.study import Outcome, Trial

S = TypeVar("S", bound=SearchSettings)
P = TypeVar("P")

BEFORE = "settings before the sweep"
"""Name of the settings that the winner is compared with on fresh seeds."""
MAX_CHECKED = 256
"""Static combinations that are tried out before a sweep begins."""
MAX_PROGRAMS = 16
"""Programs of static groups that are kept for later batches."""

Progress = Callable[[int], object]
"""Called with the environment steps just done; may raise to stop."""


@dataclass(frozen=True)
class Watch:
    """Callbacks of an objective."""

    done: Callable[[Trial, Outcome], object]
    """called for each trial as soon as it is decided"""
    should_prune: Callable[[Trial, int, float], bool]
    """called at a rung with the trial, its step and its value; whether to stop it"""
    progress: Progress = lambda frames: None
    stage: Callable[[str], object] = lambda text: None
    """called with a name for the work that begins"""


@dataclass(frozen=True)
class Plan:
    """The size of a sweep."""

    trials: int
    groups: int | None
    """static combinations, one compilation each; None if they are unlimited"""
    invalid: tuple[str, ...] = ()
    """why some combinations cannot be trained; their trials will be reported as failed"""
    search_frames: int = 0
    """expected environment steps of all trials"""
    full_frames: int = 0
    """the same if every trial were trained to its end"""
    confirm_frames: int = 0
    program: object = None
    """of the longest static combination"""

    def compilations(self) -> str:
        """Return the expected number of compilations as text."""
        if self.groups is None:
            return f"up to {self.trials} (a static setting has a continuous range)"
        return str(min(self.groups, self.trials))


class Objective:
    """Evaluates the trials of a sweep in batches."""

    def __init__(self, space: Space, config: SweepConfig) -> None:
        """Bind the space of the settings and the section `sweep`."""
        self.space, self.config = space, config

    def plan(self) -> Plan:
        """Return the size of the sweep; raises `ConfigError` if it cannot run."""
        return Plan(num_trials(self.config, self.space), groups=1)

    def batch_size(self) -> int:
        """Return the maximum number of trials per batch."""
        return self.config.batch or 1

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Evaluate a batch; `watch.done` is called exactly once for every trial."""
        raise NotImplementedError

    def configs(self, params: Params) -> dict[str, Params]:
        """Return the settings of a trial as the files of configs that other commands read."""
        return {"best.yaml": dict(params)}


class FunctionObjective(Objective):
    """A Python function from the settings of a trial, by their names, to its value."""

    def __init__(
        self, function: Callable[[Params], float], space: Space, config: SweepConfig
    ) -> None:
        """Bind a function, higher values of which are better; NaN for a trial that diverged."""
        super().__init__(space, config)
        self.function = function

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Call the function for each trial."""
        for trial in batch:
            value = files.plain(float(self.function({**self.space.fixed, **trial.params})))
            watch.done(trial, Outcome("pruned" if value is None else "complete", value, [value]))
            watch.progress(0)


class SettingsObjective(Objective, Generic[S, P]):
    """Trials with the settings of a sweep, in which suggested values take their places.

    Trials are grouped by their static settings: a group shares a program P, which is built once.
    """

    def __init__(self, settings: S, space: Space) -> None:
        """Bind the sweep's settings; programs are built later."""
        super().__init__(space, settings.sweep)
        self.settings = settings
        self._raw = to_dict(settings)
        self._programs: dict[str, P] = {}

    def build(self, settings: S) -> P:
        """Return the program of a static group; it compiles when it is first used.

        Raises:
            ConfigError: if the parts of a trial do not fit together, here and below.
        """
        raise NotImplementedError

    def seed_frames(self, settings: S) -> int:
        """Return the environment steps of a trial on one seed, to its end."""
        raise NotImplementedError

    def confirm(self, params: Params, seeds: int, watch: Watch) -> tuple[np.ndarray, int]:
        """Evaluate a finalist on fresh seeds; return scores [seeds] and the number of failures."""
        raise NotImplementedError

    def program(self, settings: S) -> P:
        """Return the program of the settings' static group."""
        key = self.static_key(settings)
        if key not in self._programs:
            if len(self._programs) >= MAX_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = self.build(settings)
        return self._programs[key]

    def static_key(self, settings: S) -> str:
        """Return a text that two settings share if one compiled program serves both.

        It contains all settings that are not traced, and which of the traced ones are None.
        """
        kept = {
            key: value is None if self.space.is_traced(key) else value
            for key, value in flatten(to_dict(settings)).items()
            if key.partition(".")[0] not in OF_THE_SWEEP
        }
        return json.dumps(kept, sort_keys=True)

    def settings_of(self, params: Params) -> S:
        """Return the settings of a trial."""
        return from_dict(type(self.settings), merge(self._raw, self.space.settings(params)))

    def configs(self, params: Params) -> dict[str, Params]:
        """Return the settings of a trial as a config of `metaevo train` or `evolve`."""
        everything = to_dict(self.settings_of(params))
        return {"best.yaml": {k: v for k, v in everything.items() if k not in OF_THE_SWEEP}}

    def plan(self) -> Plan:
        """Return the size of the sweep, for the longest static combination.

        Raises:
            ConfigError: if no combination can be trained, or the winner cannot be confirmed.
        """
        settings, invalid = self._longest()
        if self.config.confirm_seeds:
            try:
                self.program(self.settings_of({}))
            except ConfigError as error:
                raise ConfigError(
                    "the settings before the sweep, with which sweep.confirm_seeds compares its "
                    f"winner, cannot be trained: {error}"
                ) from None
        frames = self.seed_frames(settings)
        count = num_trials(self.config, self.space)
        full = count * self.config.seeds * frames
        return Plan(
            trials=count,
            groups=self.space.num_static(),
            invalid=tuple(invalid),
            search_frames=round(full * expected_share(self.config)),
            full_frames=full,
            confirm_frames=2 * self.config.confirm_seeds * frames,
            program=self.program(settings),
        )

    def groups(self, batch: Sequence[Trial], watch: Watch) -> list[list[tuple[Trial, S]]]:
        """Sort a batch by static settings; trials with settings that do not fit fail."""
        groups: dict[str, list[tuple[Trial, S]]] = {}
        for trial in batch:
            try:
                settings = self.settings_of(trial.params)
                self.program(settings)
            except ConfigError as error:
                watch.done(trial, Outcome("failed", reason=str(error)))
            else:
                groups.setdefault(self.static_key(settings), []).append((trial, settings))
        return list(groups.values())

    def name_of(self, trial: Trial) -> str:
        """Return the static settings of a trial, in words."""
        static = (key for key in self.space.static if key in trial.params)
        return ", ".join(f"{key} = {trial.params[key]}" for key in static) or "searching"

    def outcome(
        self, scores: np.ndarray, *, frames: int, diverged: int, fraction: float = 1.0
    ) -> Outcome:
        """Return the outcome of a trial with scores [seeds]; the other numbers are as in it."""
        value = statistic(scores, self.config)
        return Outcome(
            "complete" if fraction == 1.0 and value is not None else "pruned",
            value,
            files.plain(scores),
            frames=frames,
            fraction=fraction,
            diverged=diverged,
        )

    def _longest(self) -> tuple[S, list[str]]:
        """Return the settings of the longest static combination, and why others do not fit."""
        valid, invalid = [], []
        for params in self.space.static_grid(MAX_CHECKED):
            try:
                settings = self.settings_of(params)
                valid.append((self.seed_frames(settings), settings))
            except ConfigError as error:
                invalid.append(str(error))
        # Building learner and environment takes longer, so the first valid combination is enough.
        for _, settings in sorted(valid, key=lambda each: -each[0]):
            try:
                self.program(settings)
                return settings, invalid
            except ConfigError as error:
                invalid.append(str(error))
        raise ConfigError(f"space: no combination of static settings can be trained: {invalid[0]}")


def statistic(scores: np.ndarray, config: SweepConfig) -> float | None:
    """Return the chosen statistic of scores [seeds], or None if a score is not finite.

    A score is not finite if the training diverged, or no episode ended.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not np.all(np.isfinite(scores)):
        return None
    if config.statistic == "mean":
        return float(np.mean(scores))
    if config.statistic == "iqm":
        return iqm(scores)
    return float(np.quantile(scores, config.quantile))
