"""A study: the trials of a sweep, in an Optuna storage that several processes can share.

Each process asks for trials until the study has as many as the settings say. No trial is lost with
its process: it fails, and its settings are queued for another trial. In a database Optuna does so
for trials without a heartbeat; in the journal of a run directory, the resumed run does.
"""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import optuna
from optuna.distributions import distribution_to_json
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages._heartbeat import (
    BaseHeartbeat,
    BaseHeartbeatThread,
    get_heartbeat_thread,
    is_heartbeat_enabled,
)
from optuna.trial import FrozenTrial, TrialState

from metaevo.config import ConfigError, show
from metaevo.config.documentation import changed_keys
from metaevo.config.space import Params, Space, decoded
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.samplers import make_pruner, make_sampler, num_trials
from metaevo.tuning.storage import open_storage, queue_again, taking_turns

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_IDENTITY = "metaevo"
"""Attribute of a study: the settings that all its processes share."""
_RESULT = "result"
"""Attribute of a decided trial: what Optuna has no place for."""
_RETRIED = "retry_history"
"""Optuna's attribute of a queued trial: the numbers of the trials that it repeats."""
_KEPT = ("outcome", "scores", "frames", "diverged", "reason")


@dataclass(frozen=True)
class Trial:
    """Settings to evaluate and, once the trial is decided, its result."""

    number: int
    """in the study, which also counts trials of killed processes"""
    params: Params
    """values by the dotted names of the settings"""
    outcome: Literal["complete", "pruned", "failed"] | None = None
    """complete, pruned (stopped early, or an agent diverged) or failed (invalid settings)"""
    value: float | None = None
    """the objective, higher is better, where the training ended; None without a score"""
    scores: list[float | None] = field(default_factory=list)
    """[seeds] None where an agent diverged"""
    frames: int = 0
    """environment steps of all seeds"""
    diverged: int = 0
    """seeds with parameters that are not finite"""
    reason: str | None = None
    """why the trial failed"""


class Study:
    """The trials of a sweep. Processes call `ask` and `tell` inside `with study:`; all may read."""

    def __init__(self, path: Path | None, config: SweepConfig, space: Space, *, seed: int) -> None:
        """Open a study, or create it if it does not exist.

        Args:
            path: the run directory, which keeps the journal; None for a study in memory.
            config: location and name of the study, and its sampler and scheduler.
            space: search space of the settings.
            seed: seed of the sampler; in a shared storage only of Sobol points and of a grid.

        Raises:
            ConfigError: if the study cannot be opened, or belongs to another sweep.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._config, self.space, self._seed = config, space, seed
        self._num_trials = num_trials(config, space)
        self._storage = open_storage(path, config.storage)
        self._is_shared = config.storage is not None
        name = config.study or (path.name if path else "sweep")
        if not self._is_shared:  # the directory may have been renamed
            name = next(iter(optuna.get_all_study_names(self._storage)), name)
        self._own: dict[int, tuple[optuna.trial.Trial, BaseHeartbeatThread]] = {}
        """by number, the trials that this process evaluates"""
        self.optuna_study = optuna.create_study(
            storage=self._storage,
            study_name=name,
            sampler=RandomSampler(),
            pruner=make_pruner(config),
            direction="maximize",
            load_if_exists=True,
        )
        """the study as Optuna knows it, for its plots"""
        self._check()

    def __enter__(self) -> "Study":
        """Begin to work; a resumed run queues the trials of the process that was killed.

        A trial has failed after it is queued: a kill in between must not lose it.
        """
        trials = [] if self._is_shared else self.optuna_study.get_trials()
        queued = {number for each in trials for number in each.system_attrs.get(_RETRIED, ())}
        for trial in trials:
            if trial.state == TrialState.RUNNING:
                if len(trial.params) < len(self.space):  # it is drawn again
                    trial.params, trial.distributions = {}, {}
                if trial.number not in queued:
                    queue_again(self.optuna_study, trial)
                self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        return self

    def __exit__(self, *error: object) -> None:
        """Leave unfinished trials to the other processes, or to the resumed run."""
        for _, beat in self._own.values():
            beat.join()
        self._own.clear()

    # --- Evaluating trials ------------------------------------------------------------------------

    def ask(self, count: int) -> list[Trial]:
        """Return trials to evaluate.

        Fewer than `count` come back near the end, and none when the study has enough trials; trials
        of other processes may still be running then, and are queued if these die.
        """
        study, taken = self.optuna_study, list[Trial]()
        with taking_turns(self._config.storage), warnings.catch_warnings():
            # Heartbeats are meant for `optimize`, which evaluates one trial at a time.
            warnings.filterwarnings("ignore", "Heartbeat of storage")
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)
            while len(taken) < count and self._choose_sampler():
                trial = study.ask()
                if isinstance(self._storage, BaseHeartbeat) and is_heartbeat_enabled(self._storage):
                    # At once: a trial that never had one would count as running for ever.
                    self._storage.record_heartbeat(trial._trial_id)
                beat = get_heartbeat_thread(trial._trial_id, self._storage)
                beat.start()
                self._own[trial.number] = trial, beat
                for key, each in self.space.items():
                    trial._suggest(key, each)
                study.sampler = RandomSampler()  # a grid's would stop an `optimize`, and fail
                taken.append(Trial(trial.number, decoded(self.space, trial.params)))
        return taken

    def should_prune(self, trial: Trial, step: int, value: float) -> bool:
        """Keep a value on the way, and return whether the trial is to be stopped."""
        own, _ = self._own[trial.number]
        try:
            own.report(value, step)
            return own.should_prune()
        except UpdateFinishedTrialError:  # another process believed that this one was dead
            return True

    def tell(self, trial: Trial) -> None:
        """Record a trial that is decided, unless Optuna considered this process dead.

        A pruned trial passes its intermediate values to the sampler or, without any, counts as the
        worst trial. The sampler ignores failed trials.
        """
        own, beat = self._own.pop(trial.number)
        value = trial.value if trial.outcome == "complete" else None
        try:
            own.set_user_attr(_RESULT, {name: getattr(trial, name) for name in _KEPT})
            self.optuna_study.tell(trial.number, value, state=_STATES[trial.outcome or "failed"])
        except (UpdateFinishedTrialError, ValueError):  # it is finished already
            pass
        finally:
            beat.join()

    # --- Reading ----------------------------------------------------------------------------------

    def trials(self) -> list[Trial]:
        """Return all trials that are decided, in the order of their numbers."""
        return [
            Trial(
                each.number,
                decoded(self.space, each.params),
                value=each.value,
                **{name: each.user_attrs[_RESULT][name] for name in _KEPT},
            )
            for each in self._all()
            if each.state.is_finished()
        ]

    def running(self) -> int:
        """Return the number of trials that other processes evaluate, if they are still alive."""
        return sum(not each.state.is_finished() for each in self._all())

    # --- Inside -----------------------------------------------------------------------------------

    def _all(self) -> list[FrozenTrial]:
        """Return all trials but those of killed processes, which have failed without a result."""
        return [
            each
            for each in self.optuna_study.get_trials(deepcopy=False)
            if each.state != TrialState.FAIL
            or each.user_attrs.get(_RESULT, {}).get("outcome") == "failed"
        ]

    def _choose_sampler(self) -> bool:
        """Choose the sampler of the next trial; return whether the study needs one."""
        trials = self._all()
        queued = next((each for each in trials if each.state == TrialState.WAITING), None)
        if queued is None and len(trials) >= self._num_trials:
            return False
        if queued is None or not queued.params:
            own_seed = None  # several processes must not make the same choices
            if not self._is_shared:  # a seed for every trial, so that a resumed study goes on alike
                number = sum(each.state != TrialState.WAITING for each in trials)
                own_seed = int(np.random.default_rng([self._seed, number]).integers(2**31))
            self.optuna_study.sampler = make_sampler(self._config, self.space, self._seed, own_seed)
        return True

    def _check(self) -> None:
        """Raise `ConfigError` if another sweep began the study."""
        study, config = self.optuna_study, self._config
        wanted = {
            "trials": config.trials,
            "sampler": config.sampler,
            "seed": self._seed,
            "space": {k: distribution_to_json(d) for k, d in self.space.items()},
        }
        found, where = study.user_attrs.get(_IDENTITY), f"study {study.study_name!r}"
        if found is None and study.trials:
            raise ConfigError(f"{where}: was not begun by a sweep of metaevo")
        if found is None:
            study.set_user_attr(_IDENTITY, wanted)
        elif changed := changed_keys(found, wanted):
            key, (old, new) = next(iter(changed.items()))
            raise ConfigError(f"{where}: has {key} = {show(old)}, not {show(new)}")


def best_of(trials: list[Trial]) -> Trial | None:
    """Return the complete trial with the highest value; the earliest if several are equal."""
    complete = [each for each in trials if each.value is not None and each.outcome == "complete"]
    return max(complete, key=lambda each: each.value or 0.0, default=None)
