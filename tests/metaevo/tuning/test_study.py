import random
from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from metaevo.config import ConfigError, files
from metaevo.tuning import storage as storages
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space
from metaevo.tuning.study import Study, best_of
from tests.metaevo.tuning.conftest import complete

SAMPLERS = ("grid", "random", "sobol", "tpe", "cma_es")


def open_study(path, config, space, seed=0):
    return Study(path, config, space, seed=seed, name="tested")


def search(path, config, space, objective, batch=8, limit=None, seed=0):
    """All trials in batches, or only some batches; the study is closed and opened in between."""
    with open_study(path, config, space, seed) as study:
        while trials := study.ask(batch):
            for trial in trials:
                value = objective(trial.params)
                assert study.tell(complete(trial, value, frames=7))
            limit = None if limit is None else limit - 1
            if limit == 0:
                break
    return study


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_finds_a_known_optimum(tmp_path, make_config, space, quadratic, sampler):
    config = make_config(trials=64, sampler=sampler, grid_points=8)
    study = search(tmp_path, config, space, quadratic)
    records = study.trials()
    assert [record.number for record in records] == list(range(64))
    assert [record.value for record in records] == [quadratic(record.params) for record in records]
    assert all(record.frames == 7 for record in records)
    best = best_of(records)
    assert best.value == max(record.value for record in records)
    # With n points in a unit square, the nearest to a point is at about 0.5 / sqrt(n).
    assert -best.value < (3 * 0.5 / 8) ** 2
    if sampler in ("tpe", "cma_es"):  # they learn: by chance the distance is 0.2
        assert np.mean([-record.value for record in records[48:]]) < 0.1


def test_a_renamed_directory_continues_its_study(tmp_path, make_config, space, quadratic):
    config, renamed = make_config(trials=8, sampler="random"), tmp_path / "renamed"
    (tmp_path / "first").mkdir()
    search(tmp_path / "first", config, space, quadratic, batch=4, limit=1)
    (tmp_path / "first").rename(renamed)
    study = Study(renamed, config, space, seed=0, name=renamed.name)
    assert len(study.trials()) == 4


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_suggestions_depend_only_on_the_seed(tmp_path, make_config, space, quadratic, sampler):
    config = make_config(trials=30, sampler=sampler, grid_points=6)
    runs = {}
    for name, seed in [("a", 0), ("again", 0), ("other", 1), ("paused", 0)]:
        path = tmp_path / name
        path.mkdir()
        if name == "paused":
            search(path, config, space, quadratic, limit=2)
        study = search(path, config, space, quadratic, seed=seed)
        runs[name] = [record.params for record in study.trials()]
    assert len(runs["a"]) == 30
    assert runs["a"] == runs["again"] == runs["paused"]
    assert runs["a"] != runs["other"]


@pytest.mark.parametrize("sampler", ["tpe", "cma_es"])
def test_a_batch_of_suggestions_differs_and_choices_are_possible(tmp_path, make_config, sampler):
    entries = {
        "a": FloatDistribution(0, 1),
        "b": IntDistribution(1, 9),
        "c": Choice(([1], [2, 2], [3])),
    }
    config = make_config(trials=48, sampler=sampler)
    study = search(
        tmp_path, config, Space(entries, {}), lambda params: params["a"] - len(params["c"]), 16
    )
    records = study.trials()
    assert len({record.params["a"] for record in records}) == 48
    assert {tuple(record.params["c"]) for record in records} == {(1,), (2, 2), (3,)}
    assert all(type(record.params["b"]) is int for record in records)


def test_outcomes_are_kept(tmp_path, make_config, space):
    config = make_config(trials=5, scheduler="successive_halving")
    with open_study(tmp_path, config, space) as study:
        assert (study.running(), study.trials()) == (0, [])
        good, stopped, diverged, impossible = study.ask(4)
        assert study.running() == 4
        assert not study.should_prune(good, 1, 3.0)
        assert study.should_prune(stopped, 1, 2.0)
        assert study.tell(complete(good, 3.0, scores=[2.0, 4.0]))
        assert study.tell(replace(stopped, outcome="pruned", value=2.0))
        assert study.tell(replace(diverged, outcome="pruned", scores=[None], diverged=1))
        assert study.tell(replace(impossible, outcome="failed", reason="why"))
        assert len(study.ask(4)) == 1
        assert study.ask(4) == []
        assert study.running() == 1
    states = [trial.state.name for trial in study.optuna_study.trials]
    assert states == ["COMPLETE", "PRUNED", "PRUNED", "FAIL", "RUNNING"]
    assert [trial.value for trial in study.optuna_study.trials[:3]] == [3.0, 2.0, None]
    records = open_study(tmp_path, config, space).trials()
    assert [record.outcome for record in records] == ["complete", "pruned", "pruned", "failed"]
    assert [record.value for record in records] == [3.0, 2.0, None, None]
    assert records[0].scores == [2.0, 4.0]
    assert records[3].reason == "why"
    assert best_of(records) == records[0]


def test_unfinished_trials_are_asked_first(tmp_path, make_config, space):
    config = make_config(trials=6, sampler="sobol")
    with open_study(tmp_path, config, space) as study:
        first = study.ask(3)
        study.tell(complete(first[1], 1.0))
    with open_study(tmp_path, config, space) as study:
        assert study.ask(1) == [first[0]]
        rest = study.ask(9)
    assert rest[0] == first[2]
    assert [trial.number for trial in rest] == [2, 3, 4, 5]


def test_a_half_written_trial_is_completed(tmp_path, make_config, space, monkeypatch):
    config = make_config(trials=2, sampler="tpe")

    class KilledError(Exception):
        pass

    calls = []

    def stop(*arguments):
        if calls:
            raise KilledError
        calls.append(real(*arguments))

    with open_study(tmp_path, config, space) as study:
        real = study._storage.set_trial_param
        monkeypatch.setattr(study._storage, "set_trial_param", stop)
        with pytest.raises(KilledError):
            study.ask(1)
    (known,) = study.optuna_study.trials[0].params.items()
    with open_study(tmp_path, config, space) as study:
        trial, other = study.ask(5)
    assert (trial.number, other.number) == (0, 1)
    assert known in trial.params.items()
    assert trial.params.keys() == other.params.keys() == space.distributions.keys()


@pytest.mark.parametrize(
    ("changes", "seed", "message"),
    [
        ({"sampler": "sobol"}, 0, "has sampler = 'random', not 'sobol'"),
        ({"trials": 9}, 0, "has trials = 8, not 9"),
        ({}, 1, "has seed = 0, not 1"),
        ({"space": {"x": FloatDistribution(0, 1)}}, 0, "has space."),
    ],
)
def test_another_search_in_the_same_study_is_refused(
    tmp_path, make_config, space, changes, seed, message
):
    open_study(tmp_path, make_config(), space)
    other = Space(changes.pop("space"), {}) if "space" in changes else space
    with pytest.raises(ConfigError) as error:
        open_study(tmp_path, make_config(**changes), other, seed)
    assert message in str(error.value)


def test_a_foreign_study_is_refused(tmp_path, make_config, space):
    url = f"sqlite:///{tmp_path}/x.db"
    optuna.create_study(storage=url, study_name="tested", direction="maximize").ask()
    with pytest.raises(ConfigError, match="not begun by a sweep"):
        open_study(tmp_path, make_config(storage=url), space)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "must be a URL like sqlite"),
        ("unknown://user:secret@host/x", "cannot be opened"),
        ("sqlite:////nowhere/at/all.db", "unable to open database file"),
    ],
)
def test_a_storage_that_cannot_be_opened(tmp_path, make_config, space, url, message):
    with pytest.raises(ConfigError) as error:
        open_study(tmp_path, make_config(storage=url), space)
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_other_files_are_refused_as_journals(tmp_path, make_config, space):
    (tmp_path / storages.JOURNAL).write_text("no json\nat all\n")
    with pytest.raises(ConfigError, match="is not the journal of a study"):
        open_study(tmp_path, make_config(), space)
    with pytest.raises(ConfigError, match="cannot be opened"):
        open_study(tmp_path / "missing", make_config(), space)


def test_a_journal_with_a_torn_last_line_is_continued(tmp_path, make_config, space):
    config = make_config(trials=3)
    with open_study(tmp_path, config, space) as study:
        for trial in study.ask(2):
            study.tell(complete(trial, 1.0, reason="ü"))
        kept = study.trials()
    journal = tmp_path / storages.JOURNAL
    whole = journal.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    assert len(whole) - last > 50
    for end in range(last, len(whole) + 1):
        journal.write_bytes(whole[:end])
        with open_study(tmp_path, config, space) as study:
            known = study.trials()
            assert known == (kept if end == len(whole) else kept[:1])
            for trial in study.ask(3):
                assert study.tell(complete(trial, 2.0))
        again = open_study(tmp_path, config, space)
        assert [record.number for record in again.trials()] == [0, 1, 2]
        assert journal.read_bytes().startswith(whole[:last])


def test_a_torn_line_does_not_affect_other_workers(tmp_path, make_config, space):
    with open_study(tmp_path, make_config(), space) as study:
        (trial,) = study.ask(1)
        with open(tmp_path / storages.JOURNAL, "ab") as file:
            file.write(b'{"op_code": 4, "wor')
        assert study.tell(complete(trial, 1.0))
    assert len(open_study(tmp_path, make_config(), space).trials()) == 1


def test_unfinished_lines_of_any_length(tmp_path):
    path = tmp_path / "lines"
    rng = random.Random(0)
    for length in [0, 1, 4095, 4096, 4097, 9000, *rng.choices(range(20_000), k=20)]:
        for head in (b"", b"whole\n", b"x" * 5000 + b"\n"):
            path.write_bytes(head + b"y" * length)
            files.drop_unfinished_line(path)
            assert path.read_bytes() == head
