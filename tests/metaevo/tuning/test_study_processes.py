import contextlib
import sqlite3
import subprocess
import tempfile
import threading

import pytest
from optuna.distributions import IntDistribution

from metaevo.config.space import Space
from metaevo.tuning import storage as storages
from metaevo.tuning.study import Study
from tests.metaevo.tuning import several_processes
from tests.metaevo.tuning.conftest import KilledError, complete
from tests.processes import ROOT

SERVER = ROOT / "tests" / "postgres" / "server.sh"


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.long),
        pytest.param("postgres", marks=pytest.mark.postgres),
    ]
)
def url(request, tmp_path):
    """A database; the server of PostgreSQL is started here: make test-postgres."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/study.db"
        return
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as directory:  # its user may not enter tmp_path
        command = [SERVER, "start", directory]
        started = subprocess.run(command, capture_output=True, text=True, check=False)
        assert started.returncode == 0, started.stderr
        yield started.stdout.strip()
        subprocess.run([SERVER, "stop", directory], check=True, timeout=60)


def test_a_killed_process_loses_and_repeats_no_trial(tmp_path, url):
    several_processes.check_that_a_killed_process_loses_nothing(tmp_path, url)


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_simultaneous_processes_share_one_study(tmp_path, url):
    several_processes.check_all_trials(tmp_path, url, "abcd")


def killed_after(count, function):
    left = iter(range(count))

    def call(*arguments):
        if next(left, None) is None:
            raise KilledError
        return function(*arguments)

    return call


def work(study, value):
    while batch := study.ask(2):
        for trial in batch:
            study.tell(complete(trial, value))


@pytest.mark.parametrize("sampler", ["random", "sobol", "grid"])
def test_a_journal_is_continued_wherever_its_process_died(tmp_path, make_config, space, sampler):
    grid = Space({"a": IntDistribution(0, 4), "b": IntDistribution(1, 1)})
    config, space = make_config(trials=5, sampler=sampler), grid if sampler == "grid" else space
    with Study(None, config, space, seed=0) as study:
        work(study, 0.0)
    settings = sorted(str(trial.params) for trial in study.trials())
    for count in range(0, 40, 3):
        path = tmp_path / str(count)
        path.mkdir()
        for writes in (count, count % 4):  # the second one dies while it queues trials
            victim = Study(path, config, space, seed=0)
            backend = victim._storage._backend
            backend.append_logs = killed_after(writes, backend.append_logs)
            with contextlib.suppress(KilledError), victim:
                work(victim, 1.0)
        with Study(path, config, space, seed=0) as study:
            before = study.trials()
            work(study, 2.0)
            found = study.trials()
        assert study.running() == 0
        assert len(found) == 5
        numbers = [trial.number for trial in found]
        assert len(set(numbers)) == 5
        others = [each for each in study.optuna_study.trials if each.number not in numbers]
        assert all(each.values is None and each.state.is_finished() for each in others)
        assert [trial for trial in found if trial.value == 1.0] == before
        assert all(trial.params.keys() == space.keys() for trial in found)
        if sampler != "sobol":
            assert sorted(str(trial.params) for trial in found) == settings


def test_a_trial_has_a_heartbeat_at_once(tmp_path, make_config, space, monkeypatch):
    """Its thread may not get as far before the process dies."""
    monkeypatch.setattr("optuna.storages._heartbeat.HeartbeatThread.start", lambda self: None)
    url = f"sqlite:///{tmp_path}/study.db"
    (trial,) = Study(tmp_path, make_config(trials=2, storage=url), space, seed=0).ask(1)
    with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as database:
        rows = database.execute("select trial_id from trial_heartbeats").fetchall()
    assert len(rows) == 1
    assert trial.number == 0


def test_a_trial_of_a_database_without_heartbeats_is_taken_over(
    tmp_path, make_config, space, monkeypatch
):
    monkeypatch.setattr(storages, "BEAT_SECONDS", 1)
    monkeypatch.setattr(storages, "DEAD_SECONDS", 2)
    config = make_config(trials=2, storage=f"sqlite:///{tmp_path}/study.db")
    lost = Study(tmp_path, config, space, seed=0)
    (first,) = lost.ask(1)
    _, beat = lost._own[first.number]
    beat.join()  # the thread goes, as with the process
    with Study(tmp_path, config, space, seed=0) as study:
        (second,) = study.ask(2)
        while not (batch := study.ask(2)):
            assert study.running() == 2
            threading.Event().wait(0.3)
        (again,) = batch
        assert (again.number, again.params) == (2, first.params)
        study.tell(complete(again, 2.0))
        lost.tell(complete(first, 1.0))  # it lives after all
        study.tell(complete(second, 1.0))
        assert study.ask(2) == []
    assert {record.number: record.value for record in study.trials()} == {2: 2.0, 1: 1.0}


@pytest.mark.faults
@pytest.mark.filterwarnings("ignore")  # of Optuna: heartbeats are experimental
def test_a_death_that_several_notice_at_once_queues_a_trial_once(
    tmp_path, make_config, space, monkeypatch
):
    monkeypatch.setattr(storages, "BEAT_SECONDS", 1)
    monkeypatch.setattr(storages, "DEAD_SECONDS", 8)  # longer than a busy machine delays a beat
    config = make_config(trials=32, storage=f"sqlite:///{tmp_path}/study.db")
    lost, *others = (Study(tmp_path, config, space, seed=0) for _ in range(9))
    asked, taken = lost.ask(16), []
    for _, beat in lost._own.values():
        beat.join()
    threading.Event().wait(9.0)  # until they count as dead
    together = threading.Barrier(len(others))

    def look(study):
        together.wait()
        taken.extend(study.ask(8))

    threads = [threading.Thread(target=look, args=[each]) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for study in others:
        study.__exit__()
    again = [each.params for each in taken if each.params in [lost.params for lost in asked]]
    assert sorted(map(str, again)) == sorted(str(each.params) for each in asked)
    assert len({each.number for each in taken}) == len(taken) == 32
