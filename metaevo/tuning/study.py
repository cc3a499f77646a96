"""A study: the trials of a sweep, in an Optuna storage that several processes can share.

All trials are queued when the study begins. A process takes trials from the queue and decides them.
No trial is lost with its process: in a database, Optuna fails and queues again those without a
heartbeat; in a journal, the leading process continues them once no worker is alive.
"""

import contextlib
import dataclasses
import math
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import optuna
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, UpdateFinishedTrialError
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages._heartbeat import BaseHeartbeat, BaseHeartbeatThread, get_heartbeat_thread
from optuna.trial import FrozenTrial, TrialState, create_trial

from metaevo.config import ConfigError, changed_keys, checks, files, show
from metaevo.config.plain import PlainDict
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import check_sampler, design, make_pruner, make_sampler, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.storage import JOURNAL, open_storage

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_IDENTITY = "metaevo"
"""Attribute of a study: the settings that all its processes share."""
_RESULT = "result"
"""Attribute of a trial: its outcome."""
_INDEX = "index"
"""Attribute of a trial: its place in the queue, which a repetition inherits."""
_SECONDS_FOR_IDENTITY = 60.0


@dataclass(frozen=True)
class Trial:
    """Settings to evaluate."""

    number: int
    """in the study"""
    index: int
    """place in the queue, 0 to trials - 1"""
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
        self,
        path: Path | None,
        config: SweepConfig,
        space: Space,
        *,
        seed: int,
        name: str,
        is_worker: bool = False,
    ) -> None:
        """Open a study, or create it if it does not exist.

        Args:
            path: the run directory, which keeps the journal; None for a study in memory.
            config: location and name of the study, and its sampler and scheduler.
            space: search space of the settings.
            seed: seed of all samplers.
            name: name of a new study if the config has none.
            is_worker: whether another process leads the study in this run directory.

        Raises:
            ConfigError: if the study cannot be opened, or belongs to another sweep.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        check_sampler(config, space)
        self._storage = open_storage(path, config.storage)
        self._journal = path / JOURNAL if path is not None and config.storage is None else None
        if self._journal is not None:  # the directory may have been renamed
            name = next(iter(optuna.get_all_study_names(self._storage)), name)
        self._name = config.study or name
        self._config, self._space, self._seed = config, space, seed
        self._is_worker = is_worker
        self._working = contextlib.ExitStack()
        self._beats: dict[int, BaseHeartbeatThread] = {}
        """by the numbers of the trials that this process evaluates"""
        is_new = True
        try:
            optuna.create_study(storage=self._storage, study_name=self._name, direction="maximize")
        except DuplicatedStudyError:
            is_new = False
        self.optuna_study = self._load(RandomSampler(seed))
        """the study as Optuna knows it, for its plots"""
        self._begin(is_new=is_new)

    def __enter__(self) -> "Study":
        """Begin to work: a worker locks the journal, which shows the leader that it is alive."""
        if self._is_worker and self._journal is not None:
            self._working.callback(os.close, files.lock(self._journal, wait=True, shared=True))
        return self

    def __exit__(self, *error: object) -> None:
        """Leave unfinished trials to the others."""
        for number in list(self._beats):
            self._beats.pop(number).join()
        self._working.close()

    # --- Evaluating trials ------------------------------------------------------------------------

    def ask(self, count: int) -> list[Trial]:
        """Return trials to evaluate, first the trials of processes that have ended.

        Fewer than `count` come back near the end, and none when the queue is empty; trials of other
        processes may still be running then, and come back if these die.
        """
        taken = self._abandoned()[:count]
        for trial in sorted(self._in_state(TrialState.WAITING), key=_index):
            if len(taken) < count and self._take(trial):
                taken.append(trial)
        if not taken:
            return []
        # Built anew for every batch, so that a resumed study continues the same way.
        seed = int(np.random.default_rng([self._seed, _index(taken[0])]).integers(2**31))
        sampler = make_sampler(self._config, self._space, seed)
        for trial in taken:
            beat = get_heartbeat_thread(trial._trial_id, self._storage)
            beat.start()
            self._beats[trial.number] = beat
        return [Trial(each.number, _index(each), self._suggest(each, sampler)) for each in taken]

    def should_prune(self, trial: Trial, step: int, value: float) -> bool:
        """Keep a value on the way, and return whether the trial is to be stopped."""
        trial_id = self._id_of(trial)
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_intermediate_value(trial_id, step, value)
            return optuna.trial.Trial(self.optuna_study, trial_id).should_prune()
        return True  # another process believed that this one was dead, and repeats the trial

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
        try:
            self._storage.set_trial_user_attr(
                self._id_of(trial), _RESULT, dataclasses.asdict(outcome)
            )
            self.optuna_study.tell(trial.number, value, state=_STATES[outcome.outcome])
        except (UpdateFinishedTrialError, ValueError):  # it is finished already
            return False
        finally:
            if (beat := self._beats.pop(trial.number, None)) is not None:
                beat.join()
        return True

    # --- Reading ----------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """Return all trials that are decided, in the order of their numbers."""
        found: dict[int, Record] = {}
        for trial in self.optuna_study.get_trials(deepcopy=False):
            result = trial.user_attrs.get(_RESULT, {})
            # Optuna fails the trials of dead processes, too.
            if trial.state.is_finished() and _STATES.get(result.get("outcome")) == trial.state:
                found.setdefault(
                    _index(trial),
                    Record(
                        **{each.name: result[each.name] for each in dataclasses.fields(Outcome)},
                        number=trial.number,
                        index=_index(trial),
                        params=self._space.decode(trial.params),
                    ),
                )
        return list(found.values())

    def running(self) -> int:
        """Return the number of running trials, including trials of processes that may be dead."""
        return len(self._in_state(TrialState.RUNNING))

    def best(self) -> Record | None:
        """Return the complete trial with the highest value; the earliest if several are equal."""
        complete = [each for each in self.records() if each.outcome == "complete"]
        return max(complete, key=lambda each: each.value or 0.0, default=None)

    # --- Inside -----------------------------------------------------------------------------------

    def _load(self, sampler: BaseSampler) -> optuna.Study:
        pruner = make_pruner(self._config)
        return optuna.load_study(
            storage=self._storage, study_name=self._name, sampler=sampler, pruner=pruner
        )

    def _in_state(self, state: TrialState) -> list[FrozenTrial]:
        return self.optuna_study.get_trials(deepcopy=False, states=(state,))

    def _id_of(self, trial: Trial) -> int:
        study_id = self.optuna_study._study_id
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)

    def _begin(self, *, is_new: bool) -> None:
        """Fill the queue of a new study, or check an existing study."""
        study, wanted = self.optuna_study, _identity(self._config, self._space, self._seed)
        # The process that began a journal may have been killed while it filled the queue.
        can_fill = not self._is_worker and (is_new or self._journal is not None)
        deadline = time.monotonic() + _SECONDS_FOR_IDENTITY
        while not (found := study.user_attrs.get(_IDENTITY)) and not can_fill:
            if time.monotonic() > deadline:
                raise ConfigError(f"study {self._name!r}: was not begun by a sweep of metaevo")
            time.sleep(0.1)  # the first process writes it after filling the queue
        if found and (changed := changed_keys(found, wanted)):
            key, (old, new) = next(iter(changed.items()))
            raise ConfigError(f"study {self._name!r}: has {key} = {show(old)}, not {show(new)}")
        trials = study.get_trials(deepcopy=False)
        for trial in trials:
            self._check(trial)
        if not found:
            self._fill_queue({_index(trial) for trial in trials})
            study.set_user_attr(_IDENTITY, wanted)

    def _fill_queue(self, known: set[int]) -> None:
        count = num_trials(self._config, self._space)
        points = design(self._config, self._space, self._seed) or [{}] * count
        for index, point in enumerate(points):
            if index not in known:
                trial = create_trial(
                    state=TrialState.WAITING,
                    params=self._space.encode(point),
                    distributions={key: self._space.distributions[key] for key in point},
                    user_attrs={_INDEX: index},
                )
                self.optuna_study.add_trial(trial)

    def _check(self, trial: FrozenTrial) -> None:
        """Raise `ConfigError` if a trial was not written by a metaevo sweep."""
        where = f"study {self._name!r}, trial {trial.number}"
        steps = dict[checks.Index, checks.Number]
        checks.check(checks.Index, trial.user_attrs.get(_INDEX), where, _INDEX)
        result = trial.user_attrs.get(_RESULT, {})
        if result != {}:
            checks.check(Outcome, result, where, _RESULT)
        checks.check(steps, trial.intermediate_values, where, "intermediate_values")
        try:
            trial._validate()
            fits = trial.distributions.items() <= self._space.distributions.items()
        except (TypeError, ValueError):
            fits = False
        is_complete = trial.state == TrialState.COMPLETE
        if not fits or (is_complete and trial.values != [result.get("value")]):
            raise ConfigError(f"{where}: is not a trial of this sweep")

    def _take(self, trial: FrozenTrial) -> bool:
        """Begin a trial of the queue; False if another process was faster."""
        if isinstance(self._storage, BaseHeartbeat):
            # Before it is taken, because Optuna never finds a trial without any heartbeat.
            self._storage.record_heartbeat(trial._trial_id)
        try:
            return self._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
        except UpdateFinishedTrialError:
            return False

    def _abandoned(self) -> list[FrozenTrial]:
        """Return the trials of dead processes; those in a database return to the queue instead."""
        if self._journal is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                optuna.storages.fail_stale_trials(self.optuna_study)
            return []
        running = self._in_state(TrialState.RUNNING)
        left = [trial for trial in running if trial.number not in self._beats]
        if left and not self._is_worker:
            with contextlib.suppress(BlockingIOError):  # a worker is alive
                os.close(files.lock(self._journal, wait=False))
                return left
        return []

    def _suggest(self, queued: FrozenTrial, sampler: BaseSampler) -> Params:
        """Return all settings of a trial; the sampler chooses the missing ones."""
        # A new study object, because Optuna's caches a list of trials, which is out of date here.
        trial = optuna.trial.Trial(self._load(sampler), queued._trial_id)
        params = {key: trial._suggest(key, each) for key, each in self._space.distributions.items()}
        return self._space.decode(params)


def _index(trial: FrozenTrial) -> int:
    index: int = trial.user_attrs[_INDEX]
    return index


def _identity(config: SweepConfig, space: Space, seed: int) -> PlainDict:
    """Return the settings that all processes of a study must share."""
    identity = {"trials": config.trials, "sampler": config.sampler, "seed": seed}
    identity |= {"grid_points": config.grid_points} if config.sampler == "grid" else {}
    return {**identity, "space": space.to_plain()}
