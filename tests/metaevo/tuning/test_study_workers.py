"""Workers that share a study: each trial is decided once, whoever dies when."""

import contextlib
import importlib.util
import json
import os
import threading
from pathlib import Path

import pytest
from optuna.trial import TrialState, create_trial

from metaevo.tuning import storage as storages
from metaevo.tuning.samplers import design
from metaevo.tuning.study import Study

_path = Path(__file__).with_name("several_workers.py")
_spec = importlib.util.spec_from_file_location("several_workers", _path)
several_workers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(several_workers)


def open_study(path, config, space):
    return Study.open(path, config, space, seed=0, name="shared")


def url_of(kind, path):
    return f"sqlite:///{path}/study.db" if kind == "sqlite" else None


@pytest.mark.long
@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_a_killed_process_loses_nothing_and_nothing_is_done_twice(tmp_path, storage):
    several_workers.check_that_a_killed_worker_loses_nothing(tmp_path, url_of(storage, tmp_path))


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_several_workers_share_the_trials(tmp_path, make_config, space, quadratic, kind):
    config = make_config(trials=12, storage=url_of(kind, tmp_path))
    open_study(tmp_path, config, space).close()
    done, errors = [], []

    def work():
        try:
            with open_study(tmp_path, config, space) as study:
                while batch := study.ask(2):
                    for trial in batch:
                        done.append(trial.index)
                        value = quadratic(trial.params)
                        assert study.tell(trial, value, outcome="complete", attributes={})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(done) == list(range(12))
    study = open_study(tmp_path, config, space)
    points = design(config, space, 0)
    assert [record.params for record in study.records()] == points
    assert study.running() == study.remaining() == 0
    kept = {"study.journal", "study.journal.lock", "study.journal.queue.lock"}
    assert kind == "sqlite" or {each.name for each in tmp_path.iterdir()} == kept


class KilledError(Exception):
    pass


@pytest.mark.parametrize("count", range(0, 25, 3))
def test_wherever_a_worker_of_a_journal_dies_no_trial_is_lost(tmp_path, make_config, space, count):
    """It dies before a line that it would write; another worker takes over its trials."""
    config = make_config(trials=5, sampler="random")
    victim = open_study(tmp_path, config, space).__enter__()
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
                    victim.tell(trial, 1.0, outcome="complete", attributes={"by": "victim"})
        os.close(victim._kept._descriptor)  # as the kernel does
        before = study.records()
        while batch := study.ask(2):
            for trial in batch:
                assert study.tell(trial, 2.0, outcome="complete", attributes={"by": "other"})
        records = study.records()
        assert study.running() == 0
    assert [record for record in records if record.attributes["by"] == "victim"] == before
    assert sorted(record.index for record in records) == list(range(5))
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
    lost._kept._stop.set()  # its thread goes, as with the process
    with open_study(tmp_path, config, space) as study:
        (second,) = study.ask(2)
        assert second.index == 1
        while not (batch := study.ask(2)):
            threading.Event().wait(0.3)
        (again,) = batch
        assert (again.index, again.params) == (first.index, first.params)
        assert study.tell(again, 2.0, outcome="complete", attributes={})
        assert not lost.tell(first, 1.0, outcome="complete", attributes={})  # it lives after all
        assert study.tell(second, 1.0, outcome="complete", attributes={})
    assert {record.index: record.value for record in study.records()} == {0: 2.0, 1: 1.0}
    lost.__exit__()


def test_a_worker_that_leaves_hands_its_trials_back(tmp_path, make_config, space):
    for kind in ("journal", "sqlite"):
        path = tmp_path / kind
        path.mkdir()
        config = make_config(trials=3, storage=url_of(kind, path))
        with open_study(path, config, space) as study:
            with open_study(path, config, space) as other:
                assert [trial.index for trial in other.ask(2)] == [0, 1]
                assert [trial.index for trial in study.ask(3)] == [2]
            assert [trial.index for trial in study.ask(3)] == [0, 1]


def test_a_study_of_an_earlier_version_goes_on(tmp_path, make_config, space):
    """Its trials have no index; the second was taken over, the third had not been decided."""
    config = make_config(trials=4)
    points = design(config, space, 0)
    study = open_study(tmp_path, config, space)
    old = []
    for place, state, attributes in [
        (0, "COMPLETE", {}),
        (1, "FAIL", {}),
        (1, "COMPLETE", {"retry_of": 1}),
        (2, "RUNNING", {}),
    ]:
        outcome = {"COMPLETE": "complete", "FAIL": "superseded"}.get(state)
        result = {"result": {"outcome": outcome, "value": float(place)}} if outcome else {}
        old.append((place, state, {"worker": "machine/1/2/3", **attributes, **result}))
    journal = tmp_path / storages.JOURNAL
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(x) + "\n" for x in lines if x["op_code"] != 4))
    study = Study(storages.Storage.open(tmp_path, None), "shared", config, space, 0)
    storage = study._storage
    for place, state, attributes in old:
        template = create_trial(
            state=TrialState[state],
            value=float(place) if state == "COMPLETE" else None,
            params=space.encode(points[place]),
            distributions=space.distributions,
            user_attrs=attributes,
        )
        storage.create_new_trial(study._id, template_trial=template)
    with open_study(tmp_path, config, space) as study:
        assert [(each.index, each.value) for each in study.records()] == [(0, 0.0), (1, 1.0)]
        rest = study.ask(9)
    assert [(trial.index, trial.params) for trial in rest] == [(2, points[2]), (3, points[3])]
