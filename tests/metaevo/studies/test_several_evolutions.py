"""Several evolutions of a loss, compared on the same seeds with baselines that are tuned once."""

import json

import jax
import pytest
from metaevo.comparison.unseen import carried, judge

import metaevo
from metaevo.runs.checkpoint import load_tree
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.run import run_evolutions
from tests.metaevo import evolving
from tests.metaevo.toy import assert_same

pytestmark = pytest.mark.long

HAND_WRITTEN = ["squared", "huber", "sloped_squared"]


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
        "evaluation": {"seeds": 8, "tuning_seeds": 1,
                       "sampler": "grid", "space": {"learning_rate": [0.1, 0.3]}, **evaluation},
        "run": {"seed": 3, "evolution_seeds": count},
    }  # fmt: skip
    return evolving.settings_of(raw)


def run(path, count, *, resume=False, **evaluation):
    settings = settings_of(count, **evaluation)
    study = LearnerStudy(settings, path if resume else None)
    assert run_evolutions(study, settings, run_dir=path, resume=resume) == 0
    return json.loads((path / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evolutions")


@pytest.fixture(scope="module")
def several(folder):
    return run(folder / "several", 2)


def by_name(result):
    return {row["name"]: row for row in result["variants"]}


def test_all_are_tuned_equally_and_baselines_once(several):
    tuned = ["learned seed 3", "learned seed 4", *HAND_WRITTEN]
    rows = by_name(several)
    assert sorted(rows) == sorted(
        [f"{name} (tuned)" for name in tuned]
        + [f"{name} (same hyperparameters)" for name in [*tuned[:2], "squared"]]
    )
    assert len(rows) == len(several["variants"])
    assert len({rows[f"{name} (tuned)"]["tuning_frames"] for name in tuned}) == 1
    assert {row["seeds"] for row in rows.values()} == {8}


def test_the_first_evolution_scores_the_same_alone(several, folder):
    alone, ours = by_name(run(folder / "alone", 1)), by_name(several)
    for name, row in alone.items():
        assert ours[name.replace("learned", "learned seed 3")]["scores"] == row["scores"]


def test_the_chosen_evolution_is_loaded(several, folder, capsys):
    scores = {each["seed"]: each["validation"] for each in several["evolutions"]}
    best = max(scores, key=scores.get)
    for seed, score in scores.items():
        lines = (folder / "several" / f"seed_{seed}" / "metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[2])["fitness_of_mean"] == score
    _, meta_params = metaevo.load(folder / "several")
    assert f"of its evolutions that of seed {best}, the best on" in capsys.readouterr().err
    _, own = metaevo.load(folder / "several" / f"seed_{best}")
    assert_same(jax.device_get(meta_params), jax.device_get(own))
    assert several["learned"] == f"learned seed {best} (tuned)"
    assert capsys.readouterr().err == ""


def test_a_resumed_comparison_reuses_its_results(several, folder):
    path = folder / "several"
    trees = [load_tree(path / f"seed_{seed}" / "meta_params") for seed in (3, 4)]
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/metrics.jsonl")}
    (path / "report.html").unlink()  # as if it had been killed in the comparison
    assert run(path, 2, resume=True) == several
    assert before == {each: each.stat().st_mtime_ns for each in path.glob("seed_*/metrics.jsonl")}
    for seed, (tree, _) in zip((3, 4), trees, strict=True):
        assert_same(tree, load_tree(path / f"seed_{seed}" / "meta_params")[0])
    assert (path / "report.html").exists()
    kinds = [json.loads(line)["kind"] for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["evaluation"] * len(several["variants"])


def test_another_comparison_does_not_change_the_evolutions(several, folder):
    path = folder / "several"
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/*")}
    again = run(path, 2, resume=True, seeds=4)
    assert {row["seeds"] for row in again["variants"]} == {4}
    old, new = by_name(several), by_name(again)
    assert {name: row["settings"] for name, row in old.items()} == {
        name: row["settings"] for name, row in new.items()
    }
    for each in (path / "seed_3" / ".lock", path / "seed_4" / ".lock"):
        before.pop(each)
    assert before == {each: each.stat().st_mtime_ns for each in before}


def test_all_are_compared_on_unseen_tasks_with_the_same_contenders(several, folder):
    path, tasks = folder / "several", {"wide": {"env": "GridWorld", "env_params": {"size": 5}}}
    result = run(path, 2, resume=True, seeds=4, unseen=tasks)
    ours = result["unseen"]
    rows = by_name(ours["tasks"]["wide"])
    untuned = {f"learned seed {seed} (same hyperparameters)" for seed in (3, 4)}
    assert set(rows) == untuned | {"squared (same hyperparameters)"} | {
        f"{name} (tuned)" for name in HAND_WRITTEN
    }
    assert ours["tasks"]["wide"]["together"]["evolutions"] == 2
    wide = ours["tasks"]["wide"]
    scaled = {**result, "unseen": {**ours, **wide}}  # as if 4 seeds gave a scale
    table = Evolutions(path, settings_of(2)).table(scaled)
    each = sorted(wide["evolutions"], key=lambda judged: judged["learned"])
    verdicts = [*map(carried, each), carried(wide["together"])]
    assert [row[-1] for row in table.rows] == [*verdicts, None]  # of the hand-written one
    best = by_name(result)[result["best_hand_written"]]
    assert (
        table.rows[-1][2]
        == pytest.approx(result["together"]["iqm"] - result["together"]["difference"])
        == pytest.approx(best["iqm"])
    )
    study = LearnerStudy(settings_of(1, seeds=4, unseen=tasks))
    tree, _ = load_tree(path / "seed_4" / "meta_params")
    alone = judge(
        study.unseen, {"learned": tree}, folder, evolution_frames=0, check_stop=lambda: None
    )
    own = by_name(alone["tasks"]["wide"])["learned (same hyperparameters)"]
    assert own["scores"] == rows["learned seed 4 (same hyperparameters)"]["scores"]
