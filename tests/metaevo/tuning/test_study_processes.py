"""Processes that share a study or continue it: each trial is decided once, whoever dies when."""

import contextlib
import threading

import pytest

from metaevo.tuning import storage as storages
from metaevo.tuning.study import Study
from tests.metaevo.tuning import several_processes
from tests.metaevo.tuning.conftest import complete


def open_study(path, config, space):
    return Study(path, config, space, seed=0, name="shared")


@pytest.mark.long
def test_a_killed_process_loses_no_trial(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    several_processes.check_that_a_killed_process_loses_nothing(tmp_path, url)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("sampler", ["random", "sobol", "grid"])
@pytest.mark.parametrize("count", range(0, 40, 5))
def test_a_journal_is_continued_wherever_its_process_died(
    tmp_path, make_config, space, sampler, count
):
    config = make_config(trials=5, sampler=sampler)
    victim = open_study(tmp_path, config, space)
    real, calls = victim._storage._backend.append_logs, []

    def append(logs):
        calls.append(logs)
        if len(calls) > count:
            raise KilledError
        real(logs)

    victim._storage._backend.append_logs = append
    with contextlib.suppress(KilledError):
        while batch := victim.ask(2):
            for trial in batch:
                victim.tell(complete(trial, 1.0, reason="victim"))
    with open_study(tmp_path, config, space) as study:
        before = {record.number: record for record in study.trials()}
        while batch := study.ask(2):
            for trial in batch:
                assert trial.number not in before
                assert study.tell(complete(trial, 2.0, reason="other"))
        records = study.trials()
        assert study.running() == 0
    assert [record.number for record in records] == list(range(5))
    assert all(before.get(record.number, record) == record for record in records)
    assert all(record.params.keys() == space.distributions.keys() for record in records)
    if sampler == "grid":
        assert len({tuple(record.params.values()) for record in records}) == 5


def test_a_trial_of_a_database_without_heartbeats_is_taken_over(
    tmp_path, make_config, space, monkeypatch
):
    monkeypatch.setattr(storages, "BEAT_SECONDS", 1)
    monkeypatch.setattr(storages, "DEAD_SECONDS", 2)
    config = make_config(trials=2, storage=f"sqlite:///{tmp_path}/study.db")
    lost = open_study(tmp_path, config, space)
    (first,) = lost.ask(1)
    _, beat = lost._own[first.number]
    beat.join()  # the thread goes, as with the process
    with open_study(tmp_path, config, space) as study:
        (second,) = study.ask(2)
        while not (batch := study.ask(2)):
            assert study.running() == 2
            threading.Event().wait(0.3)
        (again,) = batch
        assert (again.number, again.params) == (2, first.params)
        assert study.tell(complete(again, 2.0))
        assert not lost.tell(complete(first, 1.0))  # it lives after all
        assert study.tell(complete(second, 1.0))
        assert study.ask(2) == []
    assert {record.number: record.value for record in study.trials()} == {2: 2.0, 1: 1.0}
