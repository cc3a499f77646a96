"""A study: the trials of a sweep, kept where several worker processes can share them.

No storage has an atomic "compare and set". So the order in which trials are created decides, which
all storages keep:

- A trial is created together with the name of its worker. Its place in the design is its number
  minus the number of retries before it. A trial whose place is beyond the last one is surplus, and
  is failed.
- If a worker dies, other workers create retries of its trials. The first retry of a trial is valid;
  a worker that finds an earlier retry than its own fails its own. A trial that has a retry is
  superseded, even if it ends later. A worker that dies in between leaves nothing undecided.
"""

import contextlib
import json
import math
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from metaevo.config import ConfigError, changed_keys, show
from metaevo.tuning import workers
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.sampling import RETRY_OF, design_indices, make_sampler, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.storage import RESULT, check_trials, close_connections, open_storage

Outcome = Literal["complete", "pruned", "failed"]

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_WORKER, _IDENTITY, _BEAT = "worker", "metaevo", "heartbeat:"
_SECONDS_FOR_IDENTITY = 10.0


class Trial(NamedTuple):
    """Settings to train."""

    number: int
    """in the study"""
    index: int  # type: ignore[assignment]  # a tuple's method, which is not needed
    """place in the design, 0 to trials - 1; a retry has that of the trial that was lost"""
    params: dict[str, Any]
    """values by the dotted names of the settings"""


class Record(NamedTuple):
    """The outcome of a trial."""

    number: int
    index: int  # type: ignore[assignment]  # a tuple's method, which is not needed
    params: dict[str, Any]
    value: float | None
    outcome: str
    """complete, pruned or failed"""
    intermediate: dict[int, float]
    """values that were reported, by their steps"""
    attributes: dict[str, Any]
    worker: str


class Study:
    """The trials of a sweep. A worker asks for some inside `with study:`; anybody may read."""

    def __init__(
        self, storage: BaseStorage, name: str, config: SweepConfig, space: Space, seed: int
    ) -> None:
        """Take a study that exists; see `Study.open`."""
        self._storage, self._name, self._config, self._space = storage, name, config, space
        self._seed = seed
        self._study = self._load(RandomSampler(seed))
        self._id = self._study._study_id
        self._total = num_trials(config, space)
        self._design = None if config.sampler in ("tpe", "cma_es") else self._sampler(seed)
        self._worker = workers.new_worker()
        self._liveness = workers.Liveness(workers.DEAD_SECONDS)
        self._heartbeat: workers.Heartbeat | None = None

    @classmethod
    def open(
        cls, path: Path, config: SweepConfig, space: Space, *, seed: int, name: str
    ) -> "Study":
        """Open a study, or begin it if there is none.

        Args:
            path: the run directory, which keeps the journal.
            config: says where the study is and what it is called.
            space: what is tried.
            seed: of everything random in it.
            name: of the study, if the config has none.

        Raises:
            ConfigError: if it cannot be opened, or tries something else.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        make_sampler(config, space, seed)  # refuses a space that it cannot search
        storage = open_storage(path, config.storage)
        name = config.study or name
        identity = _identity(config, space, seed)
        try:
            created = optuna.create_study(storage=storage, study_name=name, direction="maximize")
            created.set_user_attr(_IDENTITY, identity)
        except DuplicatedStudyError:
            study = optuna.load_study(storage=storage, study_name=name)
            found = _wait_for_identity(study)
            if not found and config.storage is None and not study.get_trials(deepcopy=False):
                # In a run's own journal that is a sweep which was killed as it began.
                study.set_user_attr(_IDENTITY, found := identity)
            _check_identity(name, found, identity)
            check_trials(name, study.get_trials(deepcopy=False), space)
        return cls(storage, name, config, space, seed)

    @property
    def optuna_study(self) -> optuna.Study:
        """The study as Optuna knows it, for its plots."""
        return self._study

    def __enter__(self) -> "Study":
        """Begin to be a worker."""
        write = lambda beat: self._study.set_user_attr(_BEAT + self._worker, beat)  # noqa: E731
        self._heartbeat = workers.Heartbeat(self._worker, write, workers.BEAT_SECONDS)
        self._heartbeat.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave unfinished trials to the others."""
        if self._heartbeat is not None:
            self._heartbeat.end()
            self._heartbeat = None
            self._worker = workers.new_worker()  # should it come back
        self.close()

    def close(self) -> None:
        """Close the connections to a database; the study can still be read, through new ones."""
        close_connections(self._storage)

    # --- A worker's side --------------------------------------------------------------------------

    def ask(self, count: int) -> list[Trial]:
        """Return trials to train: those that dead workers left first, then fresh ones.

        Fewer than `count` come back near the end, and none when nothing is left to start; trials
        of other workers may still be running then, and come back if these die.
        """
        if self._heartbeat is None:
            raise RuntimeError("a worker asks inside `with study:`")
        batch = self._take_orphans(count)
        sampler = self._design
        while len(batch) < count and self._view().fresh < self._total:
            template = create_trial(state=TrialState.RUNNING, user_attrs={_WORKER: self._worker})
            number = self._create(template)
            index = self._view().indices[number]
            if index >= self._total:
                self._fail(number, "surplus")
                break
            # For every batch from what all workers know: a resumed study continues the same way.
            sampler = sampler or self._sampler(_seed_of(self._seed, index))
            batch.append(Trial(number, index, self._suggest(number, sampler)))
        return batch

    def report(self, trial: Trial, step: int, value: float) -> None:
        """Keep a value on the way, from which the sampler learns if the trial is pruned.

        NaN at the last step makes a trial the worst of those that got as far.
        """
        # If another worker took this one for dead and has the trial now, `tell` says so.
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_intermediate_value(self._trial_id(trial.number), step, value)

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
                report, that nothing is worse (a trial that diverged); "failed" teaches nothing.
            attributes: what else to keep, as plain data.

        Returns:
            Whether it was kept: not if others thought that this worker was dead, and gave the trial
            to one of them.
        """
        if outcome == "complete" and (value is None or not math.isfinite(value)):
            raise ValueError(f"a complete trial needs a finite value, not {value}")
        result = {"outcome": outcome, "value": value, "attributes": attributes}
        if not self._view().is_valid(trial.number):
            self._fail(trial.number, "superseded")
            return False
        try:
            self._storage.set_trial_user_attr(self._trial_id(trial.number), RESULT, result)
            complete = value if outcome == "complete" else None
            self._study.tell(trial.number, complete, state=_STATES[outcome])
        except (UpdateFinishedTrialError, ValueError):
            if self._view().trials[trial.number].state == TrialState.RUNNING:
                raise
            return False
        return True

    # --- What is known ----------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """Return all trials that are decided, in the order of their numbers."""
        view = self._view()
        return [
            self._record(trial, view.indices[trial.number])
            for trial in view.trials
            if trial.state.is_finished() and view.is_valid(trial.number)
        ]

    def running(self) -> int:
        """Return how many trials were begun and not decided, also by workers that may be dead."""
        return len(self._view().running())

    def remaining(self) -> int:
        """Return how many trials could be asked for now."""
        view = self._view()
        return max(self._total - view.fresh, 0) + len(self._orphans(view))

    def best(self) -> Record | None:
        """Return the complete trial with the highest value, the first one of equals."""
        complete = [each for each in self.records() if each.outcome == "complete"]
        return max(complete, key=lambda each: each.value or 0.0, default=None)

    # --- Inside -----------------------------------------------------------------------------------

    def _load(self, sampler: Any) -> optuna.Study:
        return optuna.load_study(storage=self._storage, study_name=self._name, sampler=sampler)

    def _sampler(self, seed: int) -> Any:
        return make_sampler(self._config, self._space, seed)

    def _view(self) -> "_View":
        return _View(self._study.get_trials(deepcopy=False), self._total)

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def _create(self, template: FrozenTrial) -> int:
        trial_id = self._storage.create_new_trial(self._id, template_trial=template)
        return self._storage.get_trial_number_from_id(trial_id)

    def _fail(self, number: int, why: str) -> None:
        trial_id = self._trial_id(number)
        # Another worker may have seen the same, and been faster.
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(trial_id, RESULT, {"outcome": why})
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _suggest(self, number: int, sampler: Any) -> dict[str, Any]:
        """Let a sampler choose what a trial lacks, and return all that it has."""
        # A study of its own: Optuna's keeps a list of all trials that would be out of date here.
        trial = optuna.trial.Trial(self._load(sampler), self._trial_id(number))
        for key, distribution in self._space.distributions.items():
            if isinstance(distribution, FloatDistribution):
                trial.suggest_float(key, distribution.low, distribution.high, log=distribution.log)
            elif isinstance(distribution, IntDistribution):
                low, high, step = distribution.low, distribution.high, distribution.step
                trial.suggest_int(key, low, high, step=step, log=distribution.log)
            elif isinstance(distribution, CategoricalDistribution):
                trial.suggest_categorical(key, distribution.choices)
        return self._space.decode(trial.params)

    def _orphans(self, view: "_View") -> list[FrozenTrial]:
        running = view.running()
        found = self._storage.get_study_user_attrs(self._id).items()
        beats = {key.removeprefix(_BEAT): beat for key, beat in found if key.startswith(_BEAT)}
        owners = {_owner(trial) for trial in running} - {self._worker}
        dead = self._liveness.dead(owners, beats)
        return [trial for trial in running if _owner(trial) in dead]

    def _take_orphans(self, count: int) -> list[Trial]:
        view = self._view()
        orphans = self._orphans(view)  # before the others are failed, which are not worth a retry
        for number in view.undecided():
            self._fail(number, "superseded")
        batch: list[Trial] = []
        for lost in orphans:
            if len(batch) == count:
                break
            if (trial := self._retry(lost, view.indices[lost.number])) is not None:
                batch.append(trial)
        return batch

    def _retry(self, lost: FrozenTrial, index: int) -> Trial | None:
        """Take over a trial; None if another worker was faster."""
        template = create_trial(
            state=TrialState.RUNNING,
            params=lost.params,
            distributions=lost.distributions,
            user_attrs={_WORKER: self._worker, RETRY_OF: lost.number},
            system_attrs=lost.system_attrs,  # CMA-ES counts its generations there
        )
        number = self._create(template)
        if not self._view().is_valid(number):
            self._fail(number, "superseded")
            return None
        self._fail(lost.number, "superseded")
        if set(lost.params) == set(self._space.distributions):
            return Trial(number, index, self._space.decode(lost.params))
        sampler = self._design or self._sampler(_seed_of(self._seed, index))
        return Trial(number, index, self._suggest(number, sampler))

    def _record(self, trial: FrozenTrial, index: int) -> Record:
        # A trial without a result was failed with Optuna's tools, by somebody's hand.
        result = trial.user_attrs.get(RESULT, {})
        return Record(
            number=trial.number,
            index=index,
            params=self._space.decode(trial.params),
            value=result.get("value"),
            outcome=result.get("outcome", "failed"),
            intermediate=dict(trial.intermediate_values),
            attributes=result.get("attributes", {}),
            worker=_owner(trial),
        )


class _View:
    """All trials of a study at one moment, and which of them count."""

    def __init__(self, trials: list[FrozenTrial], total: int) -> None:
        self.trials, self._total = trials, total
        self.indices = design_indices(trials)
        self._first_retry: dict[int, int] = {}
        for trial in trials:
            if (lost := trial.user_attrs.get(RETRY_OF)) is not None:
                self._first_retry.setdefault(lost, trial.number)

    @property
    def fresh(self) -> int:
        """How many trials were begun that are no retries."""
        return sum(RETRY_OF not in trial.user_attrs for trial in self.trials)

    def is_valid(self, number: int) -> bool:
        """Whether a trial counts: it is not surplus, has no retry, and is no second retry."""
        lost = self.trials[number].user_attrs.get(RETRY_OF, number)
        first = self._first_retry.get(lost, number)
        in_design = self.indices[number] < self._total
        return in_design and first == number and number not in self._first_retry

    def running(self) -> list[FrozenTrial]:
        """Return the trials that count and are not decided."""
        running = (trial for trial in self.trials if trial.state == TrialState.RUNNING)
        return [trial for trial in running if self.is_valid(trial.number)]

    def undecided(self) -> list[int]:
        """Return the trials that do not count and still look as if somebody trained them."""
        running = (trial for trial in self.trials if trial.state == TrialState.RUNNING)
        return [trial.number for trial in running if not self.is_valid(trial.number)]


def _owner(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get(_WORKER, ""))


def _seed_of(seed: int, index: int) -> int:
    return int(np.random.default_rng([seed, index]).integers(2**31))


def _identity(config: SweepConfig, space: Space, seed: int) -> dict[str, Any]:
    """Return what all workers of a study must agree on."""
    identity = {"trials": config.trials, "sampler": config.sampler, "seed": seed}
    identity |= {"grid_points": config.grid_points} if config.sampler == "grid" else {}
    plain: dict[str, Any] = json.loads(json.dumps({**identity, "space": space.to_plain()}))
    return plain


def _wait_for_identity(study: optuna.Study) -> dict[str, Any]:
    """Return what the worker that began a study wrote into it, which takes it a moment."""
    deadline = time.monotonic() + _SECONDS_FOR_IDENTITY
    while _IDENTITY not in study.user_attrs and time.monotonic() < deadline:
        time.sleep(0.1)
    found: dict[str, Any] = study.user_attrs.get(_IDENTITY, {})
    return found


def _check_identity(name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if not found:
        raise ConfigError(f"study {name!r}: was not begun by a sweep of metaevo, or not completely")
    changed = changed_keys(found, wanted)
    if changed:
        key, (old, new) = next(iter(changed.items()))
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise ConfigError(f"study {name!r}: has {key} = {show(old)}, not {show(new)}{more}")
