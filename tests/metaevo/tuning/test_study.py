from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from metaevo.config import ConfigError
from metaevo.tuning import storage as storages
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space
from metaevo.tuning.study import Study, best_of
from tests.metaevo.tuning.conftest import complete

SAMPLERS = ("grid", "random", "sobol", "tpe", "cma_es")


class KilledError(Exception):
    pass


def open_study(path, config, space, seed=0):
    return Study(path, config, space, seed=seed, name="tested")


def search(path, config, space, objective, batch=8, limit=None, seed=0):
    """All trials in batches, or only some batches."""
    with open_study(path, config, space, seed) as study:
        while trials := study.ask(batch):
            for trial in trials:
                assert study.tell(complete(trial, objective(trial.params), frames=7))
            limit = None if limit is None else limit - 1
            if limit == 0:
                break
    return study.trials()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_finds_a_known_optimum(tmp_path, make_config, space, quadratic, sampler):
    config = make_config(trials=64, sampler=sampler, grid_points=8)
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


@pytest.mark.parametrize("sampler", ["tpe", "cma_es"])
def test_a_batch_of_suggestions_differs_and_choices_are_possible(make_config, sampler):
    choice = Choice(([1], [2, 2], [3]))
    entries = {"a": FloatDistribution(0, 1), "b": IntDistribution(1, 9), "c": choice}
    config, space = make_config(trials=48, sampler=sampler), Space(entries)
    trials = search(None, config, space, lambda params: params["a"] - len(params["c"]), 16)
    assert len({trial.params["a"] for trial in trials}) == 48
    assert {tuple(trial.params["c"]) for trial in trials} == {(1,), (2, 2), (3,)}
    assert all(type(trial.params["b"]) is int for trial in trials)


def test_results_are_kept(tmp_path, make_config, space):
    config = make_config(trials=5, scheduler="successive_halving")
    with open_study(tmp_path, config, space) as study:
        good, stopped, diverged, impossible = study.ask(4)
        assert study.running() == 4
        assert not study.should_prune(good, 1, 3.0)
        assert study.should_prune(stopped, 1, 2.0)
        told = [
            complete(good, 3.0, scores=[2.0, 4.0]),
            replace(stopped, outcome="pruned", value=2.0),
            replace(diverged, outcome="pruned", scores=[None], diverged=1),
            replace(impossible, outcome="failed", reason="why"),
        ]
        assert all(map(study.tell, told))
        assert len(study.ask(4)) == 1
        assert (study.ask(4), study.running()) == ([], 1)
    states = [trial.state.name for trial in study.optuna_study.trials]
    assert states == ["COMPLETE", "PRUNED", "PRUNED", "FAIL", "RUNNING"]
    found = open_study(tmp_path, config, space).trials()
    assert found == told
    assert best_of(found) == found[0]


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


@pytest.mark.parametrize("sampler", ["random", "tpe", "cma_es"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_half_written_trial_is_completed(
    tmp_path, make_config, space, monkeypatch, sampler, count
):
    config, calls = make_config(trials=2, sampler=sampler), []
    with open_study(None, config, space) as study:
        whole = study.ask(2)

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) > count:
            raise KilledError
        real(*arguments)

    with open_study(tmp_path, config, space) as study:
        real = study._storage.set_trial_param
        monkeypatch.setattr(study._storage, "set_trial_param", stop)
        with pytest.raises(KilledError):
            study.ask(2)
    with open_study(tmp_path, config, space) as study:
        assert study.ask(5) == whole


@pytest.mark.parametrize(
    ("changes", "seed", "message"),
    [
        ({"sampler": "sobol"}, 0, "has sampler = 'random', not 'sobol'"),
        ({"trials": 9}, 0, "has trials = 8, not 9"),
        ({}, 1, "has seed = 0, not 1"),
        ({"space": {"x": FloatDistribution(0, 1)}}, 0, "has space."),
        ({"storage": "nonsense"}, 0, "must be a URL like sqlite"),
        ({"storage": "unknown://user:secret@host/x"}, 0, "cannot be opened"),
        ({"storage": "sqlite:////nowhere/at/all.db"}, 0, "unable to open database file"),
    ],
)
def test_another_search_or_storage_is_refused(tmp_path, make_config, space, changes, seed, message):
    open_study(tmp_path, make_config(), space)
    other = Space(changes.pop("space")) if "space" in changes else space
    with pytest.raises(ConfigError) as error:
        open_study(tmp_path, make_config(**changes), other, seed)
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_foreign_studies_and_files_are_refused(tmp_path, make_config, space):
    url = f"sqlite:///{tmp_path}/x.db"
    optuna.create_study(storage=url, study_name="tested", direction="maximize").ask()
    with pytest.raises(ConfigError, match="not begun by a sweep"):
        open_study(tmp_path, make_config(storage=url), space)
    (tmp_path / storages.JOURNAL).write_text("no json\nat all\n")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match="is not the journal of a study"):
            open_study(path, make_config(), space)


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
    for end in [last, last + 1, (last + len(whole)) // 2, len(whole) - 1, len(whole)]:
        journal.write_bytes(whole[:end])
        with open_study(tmp_path, config, space) as study:
            assert study.trials() == (kept if end == len(whole) else kept[:1])
            asked = study.ask(3)
            with journal.open("ab") as file:  # another process dies while this one works
                file.write(b'{"op_code": 4, "wor')
            assert all(study.tell(complete(trial, 2.0)) for trial in asked)
        assert [trial.number for trial in open_study(tmp_path, config, space).trials()] == [0, 1, 2]
        assert journal.read_bytes().startswith(whole[:last])
