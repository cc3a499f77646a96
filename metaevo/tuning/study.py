"""A study: the trials of a sweep, in an Optuna storage that several processes can share.

Each process asks for trials until the study has as many as the settings say. No trial is lost with
its process: in a database, Optuna fails trials without a heartbeat and queues them again; in the
journal of a run directory, the resumed run continues them.
"""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import distribution_to_json
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages._heartbeat import BaseHeartbeatThread, get_heartbeat_thread
from optuna.trial import FrozenTrial, TrialState

from metaevo.config import ConfigError, changed_keys, checks, show
from metaevo.config.plain import PlainDict
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import check_sampler, make_pruner, make_sampler, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.storage import open_storage

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_IDENTITY = "metaevo"
"""Attribute of a study: the settings that all its processes share."""
_RESULT = "result"
"""Attribute of a trial: what Optuna has no place for."""
_KEPT = ("outcome", "scores", "frames", "diverged", "reason")


@dataclass(frozen=True)
class Trial:
    """Settings to evaluate and, once the trial is decided, its result."""

    number: checks.Index
    """in the study"""
    params: Params
    """values by the dotted names of the settings"""
    outcome: Literal["complete", "pruned", "failed"] | None = None
    """complete, pruned (stopped early, or an agent diverged) or failed (invalid settings)"""
    value: checks.Measure = None
    """the objective, higher is better, where the training ended; None without a score"""
    scores: list[checks.Measure] = field(default_factory=list)
    """[seeds] None where an agent diverged"""
    frames: checks.Index = 0
    """environment steps of all seeds"""
    diverged: checks.Index = 0
    """seeds with parameters that are not finite"""
    reason: str | None = None
    """why the trial failed"""


class Study:
    """The trials of a sweep. Processes call `ask` and `tell` inside `with study:`; all may read."""

    def __init__(
        self, path: Path | None, config: SweepConfig, space: Space, *, seed: int, name: str
    ) -> None:
        """Open a study, or create it if it does not exist.

        Args:
            path: the run directory, which keeps the journal; None for a study in memory.
            config: location and name of the study, and its sampler and scheduler.
            space: search space of the settings.
            seed: seed of the sampler; in a shared storage only of Sobol points and of a grid.
            name: name of a new study if the config has none.

        Raises:
            ConfigError: if the study cannot be opened, or belongs to another sweep.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        check_sampler(config, space)
        self._storage = open_storage(path, config.storage)
        self._is_shared = config.storage is not None
        if not self._is_shared:  # the directory may have been renamed
            name = next(iter(optuna.get_all_study_names(self._storage)), name)
        self._name = config.study or name
        self._config, self._space, self._seed = config, space, seed
        self._own: dict[int, tuple[optuna.trial.Trial, BaseHeartbeatThread]] = {}
        """by number, the trials that this process evaluates"""
        self.optuna_study = optuna.create_study(
            storage=self._storage,
            study_name=self._name,
            sampler=RandomSampler(seed),
            pruner=make_pruner(config),
            direction="maximize",
            load_if_exists=True,
        )
        """the study as Optuna knows it, for its plots"""
        self._check()

    def __enter__(self) -> "Study":
        """Begin to work."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave unfinished trials to the other processes, or to the resumed run."""
        for _, beat in self._own.values():
            beat.join()
        self._own.clear()

    # --- Evaluating trials ------------------------------------------------------------------------

    def ask(self, count: int) -> list[Trial]:
        """Return trials to evaluate, first the trials of processes that have ended.

        Fewer than `count` come back near the end, and none when the study has enough trials; trials
        of other processes may still be running then, and come back if these die.
        """
        taken: list[Trial] = []
        with warnings.catch_warnings():
            # Heartbeats are meant for `optimize`, which evaluates one trial at a time.
            warnings.filterwarnings("ignore", "Heartbeat of storage")
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.optuna_study)
            while len(taken) < count and (trial := self._next()) is not None:
                beat = get_heartbeat_thread(trial._trial_id, self._storage)
                beat.start()
                self._own[trial.number] = trial, beat
                for key, each in self._space.distributions.items():
                    if key in trial.params and not trial._is_relative_param(key, each):
                        # A process that was killed chose it: the next draw must be the next one.
                        frozen = trial._cached_frozen_trial
                        trial.study.sampler.sample_independent(trial.study, frozen, key, each)
                    trial._suggest(key, each)
                taken.append(Trial(trial.number, self._space.decode(trial.params)))
        return taken

    def should_prune(self, trial: Trial, step: int, value: float) -> bool:
        """Keep a value on the way, and return whether the trial is to be stopped."""
        own, _ = self._own[trial.number]
        try:
            own.report(value, step)
            return own.should_prune()
        except UpdateFinishedTrialError:  # another process believed that this one was dead
            return True

    def tell(self, trial: Trial) -> bool:
        """Record a trial that is decided.

        A pruned trial passes its intermediate values to the sampler or, without any, counts as the
        worst trial. The sampler ignores failed trials.

        Returns:
            whether the outcome was kept; False if Optuna considered this process dead.
        """
        own, beat = self._own.pop(trial.number)
        value = trial.value if trial.outcome == "complete" else None
        try:
            own.set_user_attr(_RESULT, {name: getattr(trial, name) for name in _KEPT})
            # Not by the study of `own`, whose grid sampler would stop an `optimize`.
            self.optuna_study.tell(trial.number, value, state=_STATES[trial.outcome or "failed"])
        except (UpdateFinishedTrialError, ValueError):  # it is finished already
            return False
        finally:
            beat.join()
        return True

    # --- Reading ----------------------------------------------------------------------------------

    def trials(self) -> list[Trial]:
        """Return all trials that are decided, in the order of their numbers."""
        return [Trial(**self._content(each)) for each in self._all() if _is_decided(each)]

    def running(self) -> int:
        """Return the number of trials that other processes evaluate, if they are still alive."""
        return sum(not each.state.is_finished() for each in self._all())

    # --- Inside -----------------------------------------------------------------------------------

    def _all(self) -> list[FrozenTrial]:
        return self.optuna_study.get_trials(deepcopy=False)

    def _content(self, trial: FrozenTrial) -> PlainDict:
        """Return the fields of a `Trial`."""
        result = trial.user_attrs.get(_RESULT, {})
        params = self._space.decode(trial.params)
        found = {"number": trial.number, "params": params, "value": trial.value}
        return found | {name: result[name] for name in _KEPT if name in result}

    def _next(self) -> optuna.trial.Trial | None:
        """Return a trial that may lack settings; None if the study has enough trials."""
        trials = self._all()
        left = None
        if not self._is_shared:  # trials of a process that was killed
            running = (each for each in trials if each.state == TrialState.RUNNING)
            left = next((each for each in running if each.number not in self._own), None)
        if left is not None and left.params.keys() == self._space.distributions.keys():
            return optuna.trial.Trial(self.optuna_study, left._trial_id)
        # Optuna fails the trials of dead processes, which have no result, and queues them again.
        count = sum(each.state != TrialState.FAIL or _is_decided(each) for each in trials)
        is_queued = any(each.state == TrialState.WAITING for each in trials)
        if left is None and not is_queued and count >= num_trials(self._config, self._space):
            return None
        own_seed = None  # several processes must not make the same choices
        if not self._is_shared:  # a seed for every trial, so that a resumed study goes on as before
            number = len(trials) if left is None else left.number
            own_seed = int(np.random.default_rng([self._seed, number]).integers(2**31))
        study = optuna.load_study(
            storage=self._storage,
            study_name=self._name,
            sampler=make_sampler(self._config, self._space, self._seed, own_seed),
            pruner=self.optuna_study.pruner,
        )
        return study.ask() if left is None else optuna.trial.Trial(study, left._trial_id)

    def _check(self) -> None:
        """Raise `ConfigError` if the study or a trial was not written by this sweep."""
        study, config, trials = self.optuna_study, self._config, self._all()
        wanted = {
            "trials": config.trials,
            "sampler": config.sampler,
            "seed": self._seed,
            "grid_points": config.grid_points if config.sampler == "grid" else None,
            "space": {k: distribution_to_json(d) for k, d in self._space.distributions.items()},
        }
        found = study.user_attrs.get(_IDENTITY)
        if found is None and trials:
            raise ConfigError(f"study {self._name!r}: was not begun by a sweep of metaevo")
        if found is None:
            study.set_user_attr(_IDENTITY, wanted)
        elif changed := changed_keys(found, wanted):
            key, (old, new) = next(iter(changed.items()))
            raise ConfigError(f"study {self._name!r}: has {key} = {show(old)}, not {show(new)}")
        for trial in trials:
            where = f"study {self._name!r}, trial {trial.number}"
            fits = trial.distributions.items() <= self._space.distributions.items()
            if not fits or (trial.state == TrialState.COMPLETE and not _is_decided(trial)):
                raise ConfigError(f"{where}: is not a trial of this sweep")
            checks.check(dict[str, Any], trial.user_attrs.get(_RESULT, {}), where, _RESULT)
            checks.check(Trial, self._content(trial), where)
            steps = dict[checks.Index, checks.Number]
            checks.check(steps, trial.intermediate_values, where, "intermediate_values")


def _is_decided(trial: FrozenTrial) -> bool:
    """Whether a trial has a result, and the state that goes with it."""
    result = trial.user_attrs.get(_RESULT)
    outcome = result.get("outcome") if isinstance(result, dict) else None
    return _STATES.get(str(outcome)) == trial.state


def best_of(trials: list[Trial]) -> Trial | None:
    """Return the complete trial with the highest value; the earliest if several are equal."""
    complete = [each for each in trials if each.outcome == "complete" and each.value is not None]
    return max(complete, key=lambda each: each.value or 0.0, default=None)
