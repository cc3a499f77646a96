"""Workers that share a study: each trial is decided once, whoever dies when."""

import contextlib
import threading

import pytest

from metaevo.tuning import storage as storages
from metaevo.tuning.samplers import design
from metaevo.tuning.study import Outcome, Study
from tests.metaevo.tuning import several_workers


def open_study(path, config, space, **options):
    return Study(path, config, space, seed=0, name="shared", **options)


def url_of(kind, path):
    return f"sqlite:///{path}/study.db" if kind == "sqlite" else None


@pytest.mark.long
@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_a_killed_process_loses_and_repeats_no_trial(tmp_path, storage):
    several_workers.check_that_a_killed_worker_loses_nothing(tmp_path, url_of(storage, tmp_path))


class KilledError(Exception):
    pass


@pytest.mark.parametrize("count", range(0, 25, 3))
def test_no_trial_is_lost_when_a_worker_dies(tmp_path, make_config, space, count):
    """It dies before a line that it would write; the leading process takes over its trials."""
    config = make_config(trials=5, sampler="random")
    open_study(tmp_path, config, space)
    victim = open_study(tmp_path, config, space, is_worker=True).__enter__()
    real, calls = victim._storage._backend.append_logs, []

    def append(logs):
        calls.append(logs)
        if len(calls) > count:
            raise KilledError
        real(logs)

    victim._storage._backend.append_logs = append
    with open_study(tmp_path, config, space) as study:
        with contextlib.suppress(KilledError):
            while batch := victim.ask(2):
                for trial in batch:
                    victim.tell(trial, Outcome("complete", 1.0, reason="victim"))
        while batch := study.ask(1):  # the victim's lock still shows that it lives
            assert study.tell(batch[0], Outcome("complete", 2.0, reason="other"))
        before = {record.index: record.reason for record in study.records()}
        assert len(before) + study.running() == 5
        victim._working.close()  # as the kernel does
        while batch := study.ask(2):
            for trial in batch:
                assert trial.index not in before
                assert study.tell(trial, Outcome("complete", 2.0, reason="other"))
        records = study.records()
        assert study.running() == 0
    assert sorted(record.index for record in records) == list(range(5))
    assert all(record.reason == before.get(record.index, "other") for record in records)
    points = design(config, space, 0)
    assert all(record.params == points[record.index] for record in records)


def test_a_trial_of_a_database_without_heartbeats_is_taken_over(
    tmp_path, make_config, space, monkeypatch
):
    monkeypatch.setattr(storages, "BEAT_SECONDS", 1)
    monkeypatch.setattr(storages, "DEAD_SECONDS", 2)
    config = make_config(trials=2, storage=url_of("sqlite", tmp_path))
    lost = open_study(tmp_path, config, space).__enter__()
    (first,) = lost.ask(1)
    lost._beats[first.number].join()  # its thread goes, as with the process
    with open_study(tmp_path, config, space) as study:
        (second,) = study.ask(2)
        assert second.index == 1
        while not (batch := study.ask(2)):
            threading.Event().wait(0.3)
        (again,) = batch
        assert (again.index, again.params) == (first.index, first.params)
        assert study.tell(again, Outcome("complete", 2.0))
        assert not lost.tell(first, Outcome("complete", 1.0))  # it lives after all
        assert study.tell(second, Outcome("complete", 1.0))
    assert {record.index: record.value for record in study.records()} == {0: 2.0, 1: 1.0}
