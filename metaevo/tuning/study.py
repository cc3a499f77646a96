"""A study: the trials of a sweep, in an Optuna storage that several processes can share.

All trials are queued when the study begins. A worker takes a trial from the queue, which succeeds
for one worker only, and decides it. The trials of a worker that has died are failed and queued
again, with Optuna's callback for that purpose.
"""

import contextlib
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import (
    DuplicatedStudyError,
    ExperimentalWarning,
    StorageInternalError,
    UpdateFinishedTrialError,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState, create_trial

from metaevo.config import ConfigError, changed_keys, show
from metaevo.tuning.config import ADAPTIVE, SweepConfig
from metaevo.tuning.samplers import check_sampler, design, make_sampler, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.storage import FAILED_TRIAL, INDEX, RESULT, RETRY_OF, Storage, check_trials

Outcome = Literal["complete", "pruned", "failed"]

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_IDENTITY = "metaevo"
_SECONDS_FOR_IDENTITY = 10.0


class Trial(NamedTuple):
    """Settings to evaluate."""

    number: int
    """in the study"""
    index: int  # type: ignore[assignment]  # a tuple's method, which is not needed
    """place in the queue, 0 to trials - 1; a retry has the place of the lost trial"""
    params: dict[str, Any]
    """values by the dotted names of the settings"""


class Record(NamedTuple):
    """The outcome of a trial."""

    number: int
    index: int  # type: ignore[assignment]  # a tuple's method, which is not needed
    params: dict[str, Any]
    value: float | None
    outcome: Outcome
    intermediate: dict[int, float]
    """values that were reported, by their steps"""
    attributes: dict[str, Any]
    """scores, frames and whatever else was kept"""

    @property
    def final_params(self) -> dict[str, Any]:
        """The settings; of a member of a population, its last settings."""
        final: dict[str, Any] = self.attributes.get("final", {})
        return self.params | final


class Study:
    """The trials of a sweep. Workers call `ask` inside `with study:`; anybody may read."""

    def __init__(
        self, storage: Storage, name: str, config: SweepConfig, space: Space, seed: int
    ) -> None:
        """Take a study that exists; see `Study.open`."""
        self._kept, self._storage, self._name = storage, storage.optuna, name
        self._config, self._space, self._seed = config, space, seed
        self._total = num_trials(config, space)
        self._study = self._load(RandomSampler(seed))
        self._id = self._study._study_id
        self._is_open = False

    @classmethod
    def open(
        cls, path: Path | None, config: SweepConfig, space: Space, *, seed: int, name: str
    ) -> "Study":
        """Open a study, or begin it if there is none.

        Args:
            path: the run directory, which keeps the journal; None for a study in memory.
            config: where the study is, what it is called, and how its trials are chosen.
            space: of the settings.
            seed: of everything random in it.
            name: of the study, if the config has none.

        Raises:
            ConfigError: if it cannot be opened, or tries something else.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        check_sampler(config, space)
        storage = Storage.open(path, config.storage)
        name = config.study or name
        identity = _identity(config, space, seed)
        try:
            optuna.create_study(storage=storage.optuna, study_name=name, direction="maximize")
        except DuplicatedStudyError:
            known = optuna.load_study(storage=storage.optuna, study_name=name)
            found = _wait_for_identity(known)
            is_own = config.storage is None and not any(
                trial.state.is_finished() for trial in known.get_trials(deepcopy=False)
            )
            if found or not is_own:  # else a sweep that was killed as it began
                _check_identity(name, found, identity)
            check_trials(name, known.get_trials(deepcopy=False), space)
        study = cls(storage, name, config, space, seed)
        if _IDENTITY not in study.optuna_study.user_attrs:
            study._fill_queue()
            study.optuna_study.set_user_attr(_IDENTITY, identity)
        return study

    @property
    def optuna_study(self) -> optuna.Study:
        """The study as Optuna knows it, for its plots."""
        return self._study

    def __enter__(self) -> "Study":
        """Begin to be a worker."""
        self._kept.begin_work()
        self._is_open = True
        with self._kept.alone():
            self._requeue_lost()
            self._fill_queue()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave unfinished trials to the others."""
        self._is_open = False
        with contextlib.suppress(StorageInternalError):  # then the heartbeats end
            self._requeue(self._kept.end_work())
        self.close()

    def close(self) -> None:
        """Close the connections to a database; the study can still be read, through new ones."""
        self._kept.close()

    # --- A worker's side --------------------------------------------------------------------------

    def ask(self, count: int) -> list[Trial]:
        """Return trials to evaluate, lost ones first.

        Fewer than `count` come back near the end, and none when the queue is empty; trials of other
        workers may still be running then, and come back if these die.
        """
        if not self._is_open:
            raise RuntimeError("`ask` needs `with study:`")
        taken: list[tuple[int, FrozenTrial]] = []
        with self._kept.alone():
            self._requeue_lost()
            trials = self._trials()
            queue = zip(indices_of(trials), trials, strict=True)
            waiting = [each for each in queue if each[1].state == TrialState.WAITING]
            for index, trial in sorted(waiting, key=lambda each: each[0]):
                if len(taken) < count and self._kept.take(trial):
                    taken.append((index, trial))
        if not taken:
            return []
        sampler = None
        if self._config.sampler in ADAPTIVE:
            # Built anew for every batch, so that a resumed study continues the same way.
            sampler = make_sampler(self._config, self._space, _seed_of(self._seed, taken[0][0]))
        return [Trial(trial.number, index, self._suggest(trial, sampler)) for index, trial in taken]

    def report(self, trial: Trial, step: int, value: float) -> None:
        """Keep a value on the way, from which the sampler learns if the trial is pruned.

        NaN at the last step makes a trial the worst of those that got as far.
        """
        with contextlib.suppress(UpdateFinishedTrialError):  # `tell` returns False for such a trial
            self._storage.set_trial_intermediate_value(self._trial_id(trial), step, value)

    def tell(
        self,
        trial: Trial,
        value: float | None,
        *,
        outcome: Outcome,
        attributes: dict[str, Any],
    ) -> bool:
        """Decide a trial.

        Args:
            trial: one that `ask` returned.
            value: the objective, higher is better; finite if the trial is complete.
            outcome: "pruned" teaches the sampler what was reported on the way, or, without any
                report, that nothing is worse (a trial that diverged); "failed" is ignored by it.
            attributes: further plain data to keep.

        Returns:
            Whether it was kept: not if other workers believed that this one was dead.
        """
        if outcome == "complete" and (value is None or not math.isfinite(value)):
            raise ValueError(f"a complete trial needs a finite value, not {value}")
        result = {"outcome": outcome, "value": value, "attributes": attributes}
        trial_id = self._trial_id(trial)
        try:
            self._storage.set_trial_user_attr(trial_id, RESULT, result)
            complete = value if outcome == "complete" else None
            self._study.tell(trial.number, complete, state=_STATES[outcome])
        except (UpdateFinishedTrialError, ValueError):  # it is finished already
            return False
        finally:
            self._kept.release(trial_id)
        return True

    # --- What is known ----------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """Return all trials that are decided, in the order of their numbers."""
        trials = self._trials()
        found: dict[int, Record] = {}
        for index, trial in zip(indices_of(trials), trials, strict=True):
            if index not in found and index < self._total and _is_decided(trial):
                found[index] = self._record(trial, index)
        return sorted(found.values(), key=lambda record: record.number)

    def running(self) -> int:
        """Return how many trials were begun and not decided, also by workers that may be dead."""
        return sum(trial.state == TrialState.RUNNING for trial in self._trials())

    def remaining(self) -> int:
        """Return how many trials are in the queue."""
        return sum(trial.state == TrialState.WAITING for trial in self._trials())

    def best(self) -> Record | None:
        """Return the complete trial with the highest value, the first one of equals."""
        complete = [each for each in self.records() if each.outcome == "complete"]
        return max(complete, key=lambda each: each.value or 0.0, default=None)

    # --- Inside -----------------------------------------------------------------------------------

    def _load(self, sampler: BaseSampler) -> optuna.Study:
        return optuna.load_study(storage=self._storage, study_name=self._name, sampler=sampler)

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _trial_id(self, trial: Trial) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)

    def _fill_queue(self) -> None:
        """Queue every trial that is neither queued, begun nor decided."""
        trials = self._trials()
        known = {
            index
            for index, trial in zip(indices_of(trials), trials, strict=True)
            if trial.state != TrialState.FAIL or _is_decided(trial)
        }
        points = design(self._config, self._space, self._seed)
        for index in sorted(set(range(self._total)) - known):
            params = self._space.encode(points[index]) if points is not None else {}
            distributions = {key: self._space.distributions[key] for key in params}
            template = create_trial(
                state=TrialState.WAITING,
                params=params,
                distributions=distributions,
                user_attrs={INDEX: index},
            )
            self._storage.create_new_trial(self._id, template_trial=template)

    def _requeue_lost(self) -> None:
        """Queue the trials of dead workers again."""
        with _without_experimental_warnings():
            optuna.storages.fail_stale_trials(self._study)  # of a database, by their heartbeats
        self._requeue(self._kept.lost(self._trials()))

    def _requeue(self, lost: list[FrozenTrial]) -> None:
        """Fail trials, and queue them again."""
        with _without_experimental_warnings():
            retry = RetryHeartbeatStaleTrialCallback()
        for trial in lost:
            with contextlib.suppress(UpdateFinishedTrialError):
                self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
                retry(self._study, trial)

    def _suggest(self, queued: FrozenTrial, sampler: BaseSampler | None) -> dict[str, Any]:
        """Let the sampler choose the missing settings of a trial, and return all of them."""
        if set(queued.params) == set(self._space.distributions):
            return self._space.decode(queued.params)
        assert sampler is not None
        # A study of its own: Optuna's keeps a list of all trials that would be out of date here.
        trial = optuna.trial.Trial(self._load(sampler), queued._trial_id)
        for key, distribution in self._space.distributions.items():
            if isinstance(distribution, FloatDistribution):
                trial.suggest_float(key, distribution.low, distribution.high, log=distribution.log)
            elif isinstance(distribution, IntDistribution):
                low, high, step = distribution.low, distribution.high, distribution.step
                trial.suggest_int(key, low, high, step=step, log=distribution.log)
            elif isinstance(distribution, CategoricalDistribution):
                trial.suggest_categorical(key, distribution.choices)
        return self._space.decode(trial.params)

    def _record(self, trial: FrozenTrial, index: int) -> Record:
        result = trial.user_attrs[RESULT]
        return Record(
            number=trial.number,
            index=index,
            params=self._space.decode(trial.params),
            value=result.get("value"),
            outcome=result["outcome"],
            intermediate=dict(trial.intermediate_values),
            attributes=result.get("attributes", {}),
        )


def indices_of(trials: list[FrozenTrial]) -> list[int]:
    """Return the place in the queue of every trial.

    Args:
        trials: all trials of a study in their order. Those of a study that earlier versions began
            have no such attribute: there it is the number of trials before, without retries.
    """
    indices: list[int] = []
    fresh = 0
    for trial in trials:
        lost = trial.user_attrs.get(RETRY_OF, trial.system_attrs.get(FAILED_TRIAL))
        indices.append(trial.user_attrs.get(INDEX, fresh if lost is None else indices[lost]))
        fresh += lost is None
    return indices


def _is_decided(trial: FrozenTrial) -> bool:
    """Whether a worker decided a trial; others were failed because their workers had died."""
    outcome = trial.user_attrs.get(RESULT, {}).get("outcome")
    return trial.state.is_finished() and _STATES.get(outcome) == trial.state


@contextlib.contextmanager
def _without_experimental_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def _seed_of(seed: int, index: int) -> int:
    return int(np.random.default_rng([seed, index]).integers(2**31))


def _identity(config: SweepConfig, space: Space, seed: int) -> dict[str, Any]:
    """Return the settings that all workers of a study must share."""
    identity = {"trials": config.trials, "sampler": config.sampler, "seed": seed}
    identity |= {"grid_points": config.grid_points} if config.sampler == "grid" else {}
    plain: dict[str, Any] = json.loads(json.dumps({**identity, "space": space.to_plain()}))
    return plain


def _wait_for_identity(study: optuna.Study) -> dict[str, Any]:
    """Return the settings in a study, which its first worker writes after filling the queue."""
    count, deadline = -1, 0.0
    while _IDENTITY not in study.user_attrs:
        if (now := len(study.get_trials(deepcopy=False))) != count:
            count, deadline = now, time.monotonic() + _SECONDS_FOR_IDENTITY
        if time.monotonic() > deadline:
            return {}
        time.sleep(0.1)
    found: dict[str, Any] = study.user_attrs[_IDENTITY]
    return found


def _check_identity(name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if not found:
        raise ConfigError(f"study {name!r}: was not begun by a sweep of metaevo, or not completely")
    changed = changed_keys(found, wanted)
    if changed:
        key, (old, new) = next(iter(changed.items()))
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise ConfigError(f"study {name!r}: has {key} = {show(old)}, not {show(new)}{more}")
