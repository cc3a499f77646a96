import importlib.util
import random
import threading
from pathlib import Path

import optuna
import pytest

from metaevo.tuning import workers
from metaevo.tuning.sampling import DesignSampler
from metaevo.tuning.study import Study

_path = Path(__file__).with_name("several_workers.py")
_spec = importlib.util.spec_from_file_location("several_workers", _path)
several_workers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(several_workers)


@pytest.mark.long
@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_a_killed_process_loses_nothing_and_nothing_is_done_twice(tmp_path, storage):
    url = f"sqlite:///{tmp_path}/study.db" if storage == "sqlite" else None
    several_workers.check_that_a_killed_worker_loses_nothing(tmp_path, url)


class Killed(BaseException):
    pass


class World:
    """Workers in threads of which only one moves at a time, from one storage call to the next."""

    def __init__(self, seed, config, space):
        self.random = random.Random(seed)
        self.config, self.space = config, space
        self.storage = optuna.storages.InMemoryStorage()
        optuna.create_study(storage=self.storage, study_name="s", direction="maximize")
        self.dead, self.suspected, self.kept, self.errors = set(), set(), [], []
        self.turns, self.back = {}, threading.Semaphore(0)

    def run(self, calls_to_live, suspect=None):
        """Let workers work, of which some die after a number of storage calls."""
        for name, calls in calls_to_live.items():
            self.turns[name] = threading.Semaphore(0)
            threading.Thread(target=self.work, args=(name, calls), daemon=True).start()
        moves = 0
        while self.turns:
            moves += 1
            assert moves < 20_000, "the workers wait for each other for ever"
            if suspect is not None and moves == 40:
                self.suspected.add(suspect)
            self.turns[self.random.choice(sorted(self.turns))].release()
            assert self.back.acquire(timeout=30)
        assert self.errors == []

    def work(self, name, calls):
        self.turns[name].acquire()
        try:
            self.loop(name, Calls(self, name, calls))
        except Killed:
            self.dead.add(name)
        except BaseException as error:
            self.errors.append(error)
        del self.turns[name]
        self.back.release()

    def loop(self, name, storage):
        study = Study(storage, "s", self.config, self.space, seed=0)
        study._worker, study._heartbeat = name, object()
        study._liveness.dead = lambda owners, beats: owners & (self.dead | self.suspected)
        while True:
            batch = study.ask(2)
            for trial in batch:
                if study.tell(trial, float(trial.index), outcome="complete", attributes={}):
                    self.kept.append((trial.index, trial.params))
            if not batch and not study.running():
                return


class Calls:
    """A storage that waits for its worker's turn before every call that others may notice."""

    def __init__(self, world, name, calls):
        self.world, self.name, self.calls = world, name, calls

    def __getattr__(self, attribute):
        method = getattr(self.world.storage, attribute)
        if attribute not in (
            "create_new_trial", "set_trial_param", "set_trial_user_attr", "set_trial_state_values",
            "get_all_trials",
        ):  # fmt: skip
            return method

        def call(*arguments, **keywords):
            self.calls -= 1
            if self.calls < 0:
                raise Killed
            self.world.back.release()
            self.world.turns[self.name].acquire()
            return method(*arguments, **keywords)

        return call


def check(world):
    study = Study(world.storage, "s", world.config, world.space, seed=0)
    records = study.records()
    total = world.config.trials
    assert sorted(record.index for record in records) == list(range(total))
    sampler = DesignSampler(world.config, world.space, seed=0)
    assert all(record.params == sampler.point(record.index) for record in records)
    assert all(record.outcome == "complete" for record in records)
    assert study.running() == study.remaining() == 0
    return study


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_no_interleaving_of_dying_workers_loses_or_repeats_a_trial(make_config, space, first):
    config = make_config(trials=5, sampler="random")
    for seed in range(first, first + 50):
        world = World(seed, config, space)
        lives = {name: world.random.randint(0, 90) for name in "abc"} | {"d": 10**9}
        world.run(lives)
        check(world)
        # What was told and kept is what is listed, apart from a worker that died while it told.
        kept = sorted(index for index, _ in world.kept)
        assert len(kept) == len(set(kept)) >= 5 - 3


def test_a_worker_that_is_believed_dead_but_lives_repeats_no_trial_in_the_records(
    make_config, space
):
    repeated = 0
    for seed in range(40):
        world = World(seed, make_config(trials=5, sampler="random"), space)
        world.run({"a": 10**9, "b": 10**9, "c": 10**9}, suspect="a")
        study = check(world)
        repeated += len(study.optuna_study.trials) > 5
    assert repeated > 10  # otherwise nobody was believed dead in time


def test_a_worker_is_dead_when_its_counter_stands_still():
    now = [0.0]
    liveness = workers.Liveness(60, clock=lambda: now[0])
    other = "elsewhere/1/2/3"
    assert liveness.dead({other}, {other: 5}) == set()
    now[0] = 59
    assert liveness.dead({other}, {other: 5}) == set()
    now[0] = 100
    assert liveness.dead({other}, {other: 6}) == set()
    now[0] = 159
    assert liveness.dead({other}, {other: 6}) == set()
    now[0] = 161
    assert liveness.dead({other}, {other: 6}) == {other}
    assert liveness.dead({other}, {other: workers.ENDED}) == {other}


def test_a_process_number_that_was_used_again_is_another_process():
    machine, pid, started, rest = workers.new_worker().split("/")
    liveness = workers.Liveness(60)
    ours = "/".join([machine, pid, started, rest])
    parent = f"{machine}/1/{workers._started(1)}/x"
    assert liveness.dead({ours, parent}, {}) == {ours}  # never began its heartbeat here
    reused = f"{machine}/1/{int(workers._started(1)) + 1}/x"
    assert liveness.dead({reused}, {reused: 4}) == {reused}
