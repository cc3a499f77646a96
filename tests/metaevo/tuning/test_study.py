import contextlib
import json
import pickle
import sqlite3
from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from metaevo.config import ConfigError
from metaevo.config.space import Space
from metaevo.tuning import storage as storages
from metaevo.tuning.report import shortened
from metaevo.tuning.samplers import num_trials
from metaevo.tuning.study import Study, best_of
from tests.faults.damage import Bomb
from tests.metaevo.tuning.conftest import complete

REAL = FloatDistribution(0, 1)
DIGIT = IntDistribution(0, 9)
CHOICE = CategoricalDistribution(["[1]", "[2, 2]", "[3]"])


def search(path, config, space, objective, batch=8, limit=None, seed=0):
    with Study(path, config, space, seed=seed) as study:
        for _ in range(limit or 99):
            for trial in study.ask(batch):
                study.tell(complete(trial, objective(trial.params), frames=7))
    return study.trials()


@pytest.mark.parametrize("sampler", ["random", "sobol", "tpe", "cma_es"])
def test_every_sampler_finds_a_known_optimum(tmp_path, make_config, space, quadratic, sampler):
    config = make_config(trials=64, sampler=sampler)
    trials = search(None, config, space, quadratic)
    assert [trial.number for trial in trials] == list(range(64))
    assert all(trial.value == quadratic(trial.params) for trial in trials)
    # With n points in a unit square, the nearest to a point is at about 0.5 / sqrt(n).
    assert -best_of(trials).value < (3 * 0.5 / 8) ** 2
    if sampler in ("tpe", "cma_es"):  # they learn: by chance the distance is 0.2
        assert np.mean([-trial.value for trial in trials[48:]]) < 0.1
    # Suggestions depend on the seed only: not on a pause, nor on the name of the directory.
    first, renamed = tmp_path / "first", tmp_path / "renamed"
    first.mkdir()
    search(first, config, space, quadratic, limit=2)
    first.rename(renamed)
    assert search(renamed, config, space, quadratic) == trials
    other = search(None, config, space, quadratic, limit=2, seed=1)
    assert other != trials[: len(other)]


def test_every_point_of_a_grid_is_tried_once(make_config):
    space = Space({"a": IntDistribution(10, 40, step=10), "b": CHOICE})
    for most, count in ((100, 12), (9, 9)):
        config = make_config(sampler="grid", trials=most)
        trials = search(None, config, space, lambda params: 0.0, batch=5)
        assert num_trials(config, space) == len(trials) == count
        assert len({str(trial.params) for trial in trials}) == count
        assert {trial.params["a"] for trial in trials} <= {10, 20, 30, 40}


@pytest.mark.parametrize("sampler", ["tpe", "cma_es"])
def test_a_batch_of_suggestions_differs_and_choices_are_possible(make_config, sampler):
    space = Space({"a": REAL, "b": IntDistribution(1, 9), "c": CHOICE})
    config = make_config(trials=48, sampler=sampler)
    trials = search(None, config, space, lambda params: params["a"] - len(params["c"]), 16)
    assert len({trial.params["a"] for trial in trials}) == 48
    assert {tuple(trial.params["c"]) for trial in trials} == {(1,), (2, 2), (3,)}
    assert all(type(trial.params["b"]) is int for trial in trials)


def test_results_are_kept(tmp_path, make_config, space):
    config = make_config(trials=5, scheduler="successive_halving")
    with Study(tmp_path, config, space, seed=0) as study:
        impossible, good, stopped, diverged = study.ask(4)
        assert study.running() == 4
        assert not study.should_prune(good, 1, 3.0)
        assert study.should_prune(stopped, 1, 2.0)
        told = [
            replace(impossible, outcome="failed", reason="why"),
            complete(good, 3.0, scores=[2.0, 4.0]),
            replace(stopped, outcome="pruned", value=2.0),
            replace(diverged, outcome="pruned", scores=[None], diverged=1),
        ]
        for trial in told:
            study.tell(trial)
        assert len(study.ask(4)) == 1
        assert (study.ask(4), study.running()) == ([], 1)
    states = [trial.state.name for trial in study.optuna_study.trials]
    assert states == ["FAIL", "COMPLETE", "PRUNED", "PRUNED", "RUNNING"]
    drawn = shortened(study.optuna_study).get_trials(states=[TrialState.COMPLETE])
    assert [trial.number for trial in drawn] == [1]  # the figures count as the tables do
    assert [*drawn[0].params] == ["learning_rate", "gamma"]
    found = Study(tmp_path, config, space, seed=0).trials()
    assert found == told
    assert best_of(found) == found[1]


@pytest.mark.parametrize(
    ("changes", "seed", "message"),
    [
        ({"sampler": "sobol"}, 0, "has sampler = 'random', not 'sobol'"),
        ({"trials": 9}, 0, "has trials = 8, not 9"),
        ({}, 1, "has seed = 0, not 1"),
        ({"space": {"x": REAL}}, 0, "has space."),
        ({"storage": "nonsense"}, 0, "must be a URL like sqlite"),
        ({"storage": "unknown://user:secret@host/x"}, 0, "dialects:unknown"),
        ({"storage": "sqlite:////nowhere/at/all.db"}, 0, "unable to open database file"),
        ({"sampler": "grid", "space": {"x": REAL}}, 0, "must be choices and integers"),
        ({"sampler": "grid", "space": dict.fromkeys("abcdefghi", DIGIT)}, 0, "1000000000 points"),
        ({"sampler": "cma_es", "space": {"c": CHOICE, "x": REAL}}, 0, "at least 2 ranges"),
    ],
)
def test_another_search_or_storage_is_refused(tmp_path, make_config, space, changes, seed, message):
    Study(tmp_path, make_config(), space, seed=0)
    other = Space(changes["space"]) if "space" in changes else space
    changed = {key: each for key, each in changes.items() if key != "space"}
    with pytest.raises(ValueError) as error:  # noqa: PT011 (of the settings, or ConfigError)
        Study(tmp_path, make_config(**changed), other, seed=seed)
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_foreign_studies_and_files_are_refused(tmp_path, make_config, space):
    url = f"sqlite:///{tmp_path}/x.db"
    optuna.create_study(storage=url, study_name=tmp_path.name, direction="maximize").ask()
    with pytest.raises(ConfigError, match="not begun by a sweep"):
        Study(tmp_path, make_config(storage=url), space, seed=0)
    (tmp_path / storages.JOURNAL).write_text("no json\nat all\n")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match="is not the journal of a study"):
            Study(path, make_config(), space, seed=0)


def test_a_journal_with_a_torn_last_line_is_continued(tmp_path, make_config, space):
    config = make_config(trials=3)
    with Study(tmp_path, config, space, seed=0) as study:
        for trial in study.ask(2):
            study.tell(complete(trial, 1.0, reason="ü"))
        kept = study.trials()
    journal = tmp_path / storages.JOURNAL
    whole = journal.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    assert len(whole) - last > 50
    for end in [last, last + 1, (last + len(whole)) // 2, len(whole) - 1, len(whole)]:
        journal.write_bytes(whole[:end])
        with Study(tmp_path, config, space, seed=0) as study:
            assert study.trials() == (kept if end == len(whole) else kept[:1])
            asked = study.ask(3)
            with journal.open("ab") as file:  # another process dies while this one works
                file.write(b'{"op_code": 4, "wor')
            for trial in asked:
                study.tell(complete(trial, 2.0))
        assert len(Study(tmp_path, config, space, seed=0).trials()) == 3
        assert journal.read_bytes().startswith(whole[:last])


def write_into_journal(directory, trial, attributes):
    line = {"op_code": 9, "worker_id": "somebody", "trial_id": trial}
    with (directory / storages.JOURNAL).open("a") as file:
        for key, value in attributes.items():
            file.write(json.dumps(line | {"system_attr": {key: value}}) + "\n")


def write_into_database(directory, trial, attributes):
    with contextlib.closing(sqlite3.connect(directory / "study.db")) as database:
        database.executemany(
            "insert into trial_system_attributes (trial_id, key, value_json) values (?, ?, ?)",
            [(1 + trial, key, json.dumps(value)) for key, value in attributes.items()],
        )
        database.commit()


@pytest.mark.parametrize("write", [write_into_journal, write_into_database])
def test_no_pickle_in_a_study_is_loaded(tmp_path, make_config, space, quadratic, write):
    """Any other writer of a shared study can write one into a trial that runs."""
    url = f"sqlite:///{tmp_path}/study.db" if write is write_into_database else None
    config = make_config(trials=9, sampler="cma_es", storage=url)
    attack = pickle.dumps(Bomb(tmp_path / "executed")).hex()
    attributes = {f"{kind}:optimizer:0": attack for kind in ("cma", "sepcma", "cmawm")}
    with Study(tmp_path, config, space, seed=0) as study:
        for _ in range(3):
            for trial in study.ask(3):
                if trial.number == 4:
                    write(tmp_path, 4, attributes)
                study.tell(complete(trial, quadratic(trial.params)))
    assert len(Study(tmp_path, config, space, seed=0).trials()) == 9
    assert not (tmp_path / "executed").exists()
