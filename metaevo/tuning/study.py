"""A study: the trials of a sweep, in an Optuna storage that several processes can share.

Each process asks for trials until the study has as many as the settings say. No trial is lost with
its process: in a database, Optuna fails trials without a heartbeat and queues them again; in the
journal of a run directory, the resumed run continues them.
"""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import optuna
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
"""Attribute of a trial: its outcome."""


@dataclass(frozen=True)
class Trial:
    """Settings to evaluate."""

    number: int
    """in the study"""
    params: Params
    """values by the dotted names of the settings"""


@dataclass(frozen=True)
class Outcome:
    """The result of one trial."""

    outcome: Literal["complete", "pruned", "failed"]
    """complete, pruned (stopped early, or an agent diverged) or failed (invalid settings)"""
    value: checks.Measure = None
    """the objective, higher is better; None where an agent diverged"""
    scores: list[checks.Measure] = dataclasses.field(default_factory=list)
    """[seeds] None where an agent diverged"""
    frames: checks.Index = 0
    """environment steps of all seeds"""
    fraction: checks.Measure = None
    """of the training done"""
    diverged: checks.Index = 0
    """seeds with parameters that are not finite"""
    seconds: checks.Measure = None
    """from the start of the process to the outcome"""
    reason: str | None = None
    """why the trial failed"""


@dataclass(frozen=True, kw_only=True)
class Record(Outcome, Trial):
    """A trial that is decided, with its outcome."""


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
        self._trials: dict[int, tuple[optuna.trial.Trial, BaseHeartbeatThread]] = {}
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
        for _, beat in self._trials.values():
            beat.join()
        self._trials.clear()

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
                self._trials[trial.number] = trial, beat
                for key, each in self._space.distributions.items():
                    trial._suggest(key, each)  # unless a process chose it before it was killed
                taken.append(Trial(trial.number, self._space.decode(trial.params)))
        return taken

    def should_prune(self, trial: Trial, step: int, value: float) -> bool:
        """Keep a value on the way, and return whether the trial is to be stopped."""
        own, _ = self._trials[trial.number]
        try:
            own.report(value, step)
            return own.should_prune()
        except UpdateFinishedTrialError:  # another process believed that this one was dead
            return True

    def tell(self, trial: Trial, outcome: Outcome) -> bool:
        """Record the outcome of a trial.

        A pruned trial passes its intermediate values to the sampler or, without any, counts as the
        worst trial. The sampler ignores failed trials.

        Returns:
            whether the outcome was kept; False if Optuna considered this process dead.
        """
        value = outcome.value if outcome.outcome == "complete" else None
        if outcome.outcome == "complete" and (value is None or not math.isfinite(value)):
            raise ValueError(f"a complete trial needs a finite value, not {value}")
        own, beat = self._trials.pop(trial.number)
        try:
            own.set_user_attr(_RESULT, dataclasses.asdict(outcome))
            # Not by the study of `own`, whose grid sampler would stop an `optimize`.
            self.optuna_study.tell(trial.number, value, state=_STATES[outcome.outcome])
        except (UpdateFinishedTrialError, ValueError):  # it is finished already
            return False
        finally:
            beat.join()
        return True

    # --- Reading ----------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """Return all trials that are decided, in the order of their numbers."""
        return [
            Record(
                **{each.name: result[each.name] for each in dataclasses.fields(Outcome)},
                number=trial.number,
                params=self._space.decode(trial.params),
            )
            for trial in self._all()
            if (result := _result_of(trial))
        ]

    def running(self) -> int:
        """Return the number of trials that other processes evaluate, if they are still alive."""
        return sum(not each.state.is_finished() for each in self._all())

    def best(self) -> Record | None:
        """Return the complete trial with the highest value; the earliest if several are equal."""
        complete = [each for each in self.records() if each.outcome == "complete"]
        return max(complete, key=lambda each: each.value or 0.0, default=None)

    # --- Inside -----------------------------------------------------------------------------------

    def _all(self) -> list[FrozenTrial]:
        return self.optuna_study.get_trials(deepcopy=False)

    def _next(self) -> optuna.trial.Trial | None:
        """Return a trial that may lack settings; None if the study has enough trials."""
        trials = self._all()
        left = None
        if not self._is_shared:  # trials of a process that was killed
            running = (each for each in trials if each.state == TrialState.RUNNING)
            left = next((each for each in running if each.number not in self._trials), None)
        if left is not None and left.params.keys() == self._space.distributions.keys():
            return optuna.trial.Trial(self.optuna_study, left._trial_id)
        # Optuna fails the trials of dead processes, which have no result, and queues them again.
        count = sum(each.state != TrialState.FAIL or bool(_result_of(each)) for each in trials)
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
        study, wanted = self.optuna_study, _identity(self._config, self._space, self._seed)
        trials = self._all()
        found = study.user_attrs.get(_IDENTITY)
        if found is None and trials:
            raise ConfigError(f"study {self._name!r}: was not begun by a sweep of metaevo")
        if found is None:
            study.set_user_attr(_IDENTITY, wanted)
        elif changed := changed_keys(found, wanted):
            key, (old, new) = next(iter(changed.items()))
            raise ConfigError(f"study {self._name!r}: has {key} = {show(old)}, not {show(new)}")
        for trial in trials:
            self._check_trial(trial)

    def _check_trial(self, trial: FrozenTrial) -> None:
        where = f"study {self._name!r}, trial {trial.number}"
        result = trial.user_attrs.get(_RESULT, {})
        if result != {}:
            checks.check(Outcome, result, where, _RESULT)
        steps = dict[checks.Index, checks.Number]
        checks.check(steps, trial.intermediate_values, where, "intermediate_values")
        try:
            trial._validate()
            fits = trial.distributions.items() <= self._space.distributions.items()
        except (TypeError, ValueError):
            fits = False
        is_complete = trial.state == TrialState.COMPLETE
        if not fits or (is_complete and trial.values != [result.get("value")]):
            raise ConfigError(f"{where}: is not a trial of this sweep")


def _result_of(trial: FrozenTrial) -> PlainDict | None:
    """Return the outcome of a trial; None if it is not decided."""
    result: PlainDict = trial.user_attrs.get(_RESULT, {})
    return result if _STATES.get(result.get("outcome", "")) == trial.state else None


def _identity(config: SweepConfig, space: Space, seed: int) -> PlainDict:
    """Return the settings that all processes of a study must share."""
    identity = {"trials": config.trials, "sampler": config.sampler, "seed": seed}
    identity |= {"grid_points": config.grid_points} if config.sampler == "grid" else {}
    return {**identity, "space": space.to_plain()}
