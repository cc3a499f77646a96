"""From the settings that a sampler suggests to groups of trials that share a compiled program.

A trial has the settings of the sweep, with the suggested values in their places. `Trials` is
the base of the objectives of trainings and of evolutions.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from metaevo.config import ConfigError, from_dict, merge, to_dict
from metaevo.runs.run_directory import RunDirectory
from metaevo.tuning.config import OF_THE_SWEEP, SearchSettings
from metaevo.tuning.objective import BEFORE, Plan, Watch, plain_scores, statistic
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import expected_share, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.study import Outcome, Record, Trial

S = TypeVar("S", bound=SearchSettings)

MAX_CHECKED = 256
"""Static combinations that are tried out before a sweep begins."""


class Trials(Generic[S]):
    """An objective made of settings, some of which are static."""

    def __init__(self, settings: S, space: Space):
        """Bind the sweep's settings."""
        self.settings, self.space = settings, space
        self.config = settings.sweep
        self._raw = to_dict(settings)

    # --- Of trainings, or of evolutions -----------------------------------------------------------

    def static_key(self, settings: S) -> str:
        """Return a text that two settings share if one compiled program serves both."""
        raise NotImplementedError

    def check(self, settings: S) -> None:
        """Raise `ConfigError` if the parts of a trial do not fit, before anything is compiled."""
        raise NotImplementedError

    def seed_frames(self, settings: S) -> int:
        """Return the environment steps of a trial on one seed, to its end."""
        raise NotImplementedError

    def check_scheduler(self) -> None:
        """Raise `ConfigError` if the scheduler is not possible."""

    def sized(self, plan: Plan, settings: S) -> Plan:
        """Return the plan with the memory that settings take, if it is known."""
        del settings
        return plan

    # --- Of both ----------------------------------------------------------------------------------

    def settings_of(self, params: Params) -> S:
        """Return the settings of a trial.

        Raises:
            ConfigError: if they do not go together.
        """
        return from_dict(type(self.settings), merge(self._raw, self.space.settings(params)))

    def begin(self, run: RunDirectory | None) -> None:
        """Do nothing."""

    def frames(self, params: Params) -> int:
        """Return the environment steps of settings on one seed."""
        return self.seed_frames(self.settings_of(params))

    def finalists(self, best: Record) -> dict[str, Params]:
        """Return the winner and the settings before the sweep."""
        return {"best trial": best.params, BEFORE: {}}

    def configs(self, params: Params) -> dict[str, Params]:
        """Return the settings of a trial as a config of `metaevo train` or `evolve`."""
        everything = to_dict(self.settings_of(params))
        return {"best.yaml": {k: v for k, v in everything.items() if k not in OF_THE_SWEEP}}

    def plan(self) -> Plan:
        """Return the size of the sweep, for the longest static combination.

        Raises:
            ConfigError: if no combination can be trained.
        """
        self.check_scheduler()
        settings, invalid = self._longest()
        if self.config.confirm_seeds:
            self._check_base()
        frames = self.seed_frames(settings)
        count = num_trials(self.config, self.space)
        full = count * self.config.seeds * frames
        plan = Plan(
            trials=count,
            groups=self.space.num_static(),
            invalid=tuple(invalid),
            search_frames=round(full * expected_share(self.config)),
            full_frames=full,
            confirm_frames=2 * self.config.confirm_seeds * frames,
        )
        return self.sized(plan, settings)

    def groups(self, batch: Sequence[Trial], watch: Watch) -> list[list[tuple[Trial, S]]]:
        """Sort a batch by static settings; trials with settings that do not fit fail."""
        groups: dict[str, list[tuple[Trial, S]]] = {}
        for trial in batch:
            try:
                settings = self.settings_of(trial.params)
                key = self.static_key(settings)
                if key not in groups:
                    self.check(settings)
            except ConfigError as error:
                watch.done(trial, Outcome("failed", reason=str(error)))
                continue
            groups.setdefault(key, []).append((trial, settings))
        return list(groups.values())

    def name_of(self, trial: Trial) -> str:
        """Return the static settings of a trial, in words."""
        return ", ".join(f"{key} = {trial.params[key]}" for key in self.space.static)

    def outcome(
        self, scores: np.ndarray, *, frames: int, diverged: int, fraction: float = 1.0
    ) -> Outcome:
        """Return the outcome of a trial.

        Args:
            scores: [seeds].
            frames: environment steps of all seeds.
            diverged: seeds with parameters that are not finite.
            fraction: of the training; below 1 for a trial that was stopped early.
        """
        value = statistic(scores, self.config)
        return Outcome(
            "complete" if fraction == 1.0 and value is not None else "pruned",
            value,
            plain_scores(scores),
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
                self.check(settings)
            except ConfigError as error:
                invalid.append(str(error))
            else:
                return settings, invalid
        raise ConfigError(f"space: no combination of static settings can be trained: {invalid[0]}")

    def _check_base(self) -> None:
        """Refuse settings that the confirmation at the end could not train."""
        try:
            self.check(self.settings_of({}))
        except ConfigError as error:
            raise ConfigError(
                "the settings before the sweep, with which sweep.confirm_seeds compares its "
                f"winner, cannot be trained: {error}"
            ) from None
