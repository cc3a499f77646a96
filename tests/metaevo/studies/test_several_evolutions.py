import json

import jax
import numpy as np
import pytest

import metaevo
from metaevo.runs.checkpoint import load_tree
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.run import run_evolutions
from metaevo.studies.study import Study
from tests.metaevo import evolving
from tests.metaevo.toy import assert_same

pytestmark = pytest.mark.long

HAND_WRITTEN = ("squared", "huber", "sloped_squared")


def settings_of(count, **evaluation):
    raw = {
        "learner": "q_learning",
        "evolve": "value_loss",
        "task": {"env": "GridWorld", "env_params": {"size": 4}},
        "train": {"total_timesteps": 1000, "num_steps": 50},
        "hyperparams": {"learning_rate": 0.2, "epsilon_start": 0.1},
        "component": {"hidden_sizes": [4], "start": "random"},
        "fitness": {"mean_return": 0.0, "reward_per_step": 200.0},
        "strategy": {"population_size": 4, "sigma": 0.5},
        "evolution": {"generations": 3, "validation_every": 2, "validation_seeds": 2,
                      "chunk_size": 4, "num_devices": 1},
        "evaluation": {"seeds": 8, "settings": 2, "finalists": 2, "selection_seeds": 4,
                       "space": {"learning_rate": [0.1, 0.3]}, **evaluation},
        "run": {"seed": 3, "evolution_seeds": count},
    }  # fmt: skip
    return evolving.settings_of(raw)


def run(path, count, *, resume=False, **evaluation):
    settings = settings_of(count, **evaluation)
    study = Study(settings.build(path if resume else None), settings)
    assert run_evolutions(study, settings, run_dir=path, resume=resume) == 0
    return metaevo.Scores.load(path / "scores.npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evolutions")


@pytest.fixture(scope="module")
def several(folder):
    return run(folder / "several", 2)


def test_all_are_tuned_equally_and_one_evolution_scores_the_same_alone(several, folder):
    assert set(several.contenders[:2]) == {"learned seed 3", "learned seed 4"}
    assert several.contenders[2:] == HAND_WRITTEN
    assert several.discoveries == ("learned",)
    assert np.isfinite(several.screening).all()
    alone = run(folder / "alone", 1)
    for name in alone.contenders:
        ours = name.replace("learned", "learned seed 3")
        np.testing.assert_array_equal(alone.held_out_of(name), several.held_out_of(ours))


def test_the_chosen_evolution_is_loaded(several, folder, capsys):
    path = folder / "several"
    own = {}
    for seed in (3, 4):
        lines = (path / f"seed_{seed}" / "metrics.jsonl").read_text().splitlines()
        own[seed] = json.loads(lines[2])["fitness_of_mean"]
    best = max(own, key=own.get)
    _, meta_params = metaevo.load(path)
    assert f"of its evolutions that of seed {best}, the best on" in capsys.readouterr().err
    _, expected = metaevo.load(path / f"seed_{best}")
    assert_same(jax.device_get(meta_params), jax.device_get(expected))
    assert several.contenders[0] == f"learned seed {best}"
    assert capsys.readouterr().err == ""
    assert not [each for each in metaevo.compare_runs(path).notes if "finished" in each]


def test_a_resumed_judgement_goes_on(several, folder):
    path = folder / "several"
    trees = [load_tree(path / f"seed_{seed}" / "meta_params.npz") for seed in (3, 4)]
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/metrics.jsonl")}
    before[path / "scores.npz"] = (path / "scores.npz").stat().st_mtime_ns
    (path / "report.html").unlink()  # as if it had been killed before
    again = run(path, 2, resume=True)
    np.testing.assert_array_equal(again.held_out, several.held_out)
    assert before == {each: each.stat().st_mtime_ns for each in before}
    for seed, (tree, _) in zip((3, 4), trees, strict=True):
        assert_same(tree, load_tree(path / f"seed_{seed}" / "meta_params.npz")[0])
    assert (path / "report.html").exists()
    kinds = [json.loads(line)["kind"] for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["evaluation"] * len(several.contenders)


def test_another_judgement_does_not_change_the_evolutions(several, folder):
    path, tasks = folder / "several", {"wide": {"env": "GridWorld", "env_params": {"size": 5}}}
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/*")}
    scores = run(path, 2, resume=True, seeds=4, unseen=tasks)
    assert scores.seeds == 4
    np.testing.assert_array_equal(scores.screening, several.screening)
    for each in (path / "seed_3" / ".lock", path / "seed_4" / ".lock"):
        before.pop(each)
    assert before == {each: each.stat().st_mtime_ns for each in before}
    unseen = metaevo.Scores.load(path / "unseen.npz")
    assert unseen.contenders == scores.contenders
    assert unseen.tasks == ("wide",)
    table = Evolutions(path, settings_of(2)).table({"scores": scores, "unseen": unseen})
    assert [row[0] for row in table.rows][:3] == ["seed 3", "seed 4", "all"]
    assert table.rows[2][2] == pytest.approx(np.mean([row[2] for row in table.rows[:2]]))
    assert table.rows[-1][2] == scores.iqm(scores.verdict().baseline).value
