import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
import record

from metaevo.commands.evaluate import main as evaluate
from metaevo.commands.evolve import main as evolve
from metaevo.config import ConfigError, load_yaml
from metaevo.evolution.problem import Purpose
from metaevo.judging import tables
from metaevo.judging.scores import Scores
from metaevo.studies.settings import EvaluationConfig, resized
from tests.metaevo import evolving
from tests.metaevo.toy import untuned

TINY = evolving.EVOLUTION | {
    "evaluation": {
        "seeds": 16, "settings": 2, "finalists": 2, "selection_seeds": 4,
        "space": {"learning_rate": [0.2, 0.5]},
        "unseen": {
            "GridWorld": {"env_params": {"size": 2}, "hyperparams": {"learning_rate": 0.4}},
            "corridor": {"env": "GridWorld", "env_params": {"size": 4},
                         "train": {"total_timesteps": 400}},
        },
    },
}  # fmt: skip
SEEN = {"size": 3, "slip_probability": 0.1}


def study_of(raw=TINY, **evaluation):
    return evolving.study_of({**raw, "evaluation": {**raw["evaluation"], **evaluation}})


@pytest.mark.parametrize(
    ("tasks", "key"),
    [
        ({"GridWord": {}}, "unseen.GridWord: task.env"),
        ({"again": {"env": "GridWorld", "env_params": SEEN}}, "unseen.again"),
        ({"way": {"env": "GridWorld", "train": {"steps": 3}}}, "unseen.way: train: unknown key"),
        ({"../out": {"env": "GridWorld"}}, "evaluation.unseen: '../out'"),
    ],
)
def test_bad_tasks_are_refused_in_one_line(tasks, key):
    with pytest.raises(ConfigError) as caught:
        study_of(unseen=tasks)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_omitted_task_settings_have_their_defaults():
    """The same task, written in another way."""
    again = {"env": "GridWorld", "env_params": {"observations": "index"}}
    with pytest.raises(ConfigError, match="evolution sees this task"):
        study_of({**TINY, "task": {"env": "GridWorld"}}, unseen={"again": again})


def planted(gains, scale, seeds=64):
    """Scores on tasks: the learned one is so much better than 1, the tuned reference's place."""
    rng = np.random.default_rng(0)
    low, high = np.array(scale, float).T[..., np.newaxis]
    places = {"learned": 1 + np.array(gains), "squared": np.ones(len(gains))}
    held_out = {
        name: low
        + (high - low) * (place[:, np.newaxis] + 0.1 * rng.normal(size=(len(gains), seeds)))
        for name, place in places.items()
    }
    names = [f"t{index}" for index in range(len(gains))]
    return untuned(held_out, names, scale)


def test_the_table_and_the_verdict_of_unseen_tasks_agree():
    for gains, word in (([0.4, 0.2], "better"), ([-0.01, 0.0], "not worse"), ([-1, 0], "worse")):
        scores = planted(gains, [[-500, -100], [0, 3]])
        row = tables.by_task(scores, "Unseen tasks", is_unseen=True).rows[-1]
        assert row[-1].startswith("not worse (by 0.1): " if word == "not worse" else f"{word}: ")
        verdict = tables.verdict(scores, is_unseen=True)
        assert verdict.heading == "Verdict on 2 unseen tasks"
        assert verdict.paragraphs[0].startswith(f"learned is {word} than squared")
        assert len(verdict.paragraphs[0].split()) <= 25
    seen = tables.by_task(planted([-0.01, 0.0], [[-500, -100], [0, 3]]), "", is_unseen=False)
    assert not seen.rows[-1][-1].startswith("not worse")


def test_a_task_without_a_scale_is_left_out():
    flat = [np.nan, np.nan]
    scores = replace(
        planted([0.4, 9.0], [[-500, -100], [0, 1]]), scale=np.array([[-500, -100], flat])
    )
    assert scores.pooled == ("t0",)
    assert scores.iqm("learned").value == pytest.approx(1.4, abs=0.05)
    scores = replace(scores, scale=np.array([flat, flat]))
    assert tables.verdict(scores).paragraphs[0].startswith("No verdict: on none of t0, t1")


def test_each_judgement_has_seeds_and_ranges_of_its_own():
    study = study_of(own={"huber": {"huber_delta": [0.1, 9.0]}})
    example = study.problem.init(jax.random.key(0))
    found = study.judgements({"learned": example})
    assert list(found) == ["scores", "unseen"]
    assert found["unseen"].purpose == Purpose.UNSEEN
    assert found["scores"].purpose == Purpose.HELD_OUT
    for judgement in found.values():
        names = [each.name for each in judgement.contenders]
        scores = judgement.scores
        settings = [scores.setting(names.index(each), 1) for each in ("huber", "squared")]
        assert "huber_delta" in settings[0]
        assert "huber_delta" not in settings[1]


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolving.evolve(tmp_path_factory.mktemp("unseen"), TINY)


@pytest.mark.long
def test_a_run_ends_with_judgements(evolved):
    own, unseen = (Scores.load(evolved / f"{name}.npz") for name in ("scores", "unseen"))
    names = ("learned", "squared", "huber", "sloped_squared")  # clipping makes no difference
    assert own.contenders == unseen.contenders == names
    assert (own.tried, own.seeds) == (2, 16)
    assert unseen.tasks == ("GridWorld", "corridor")
    assert np.nanmax(own.steps) == np.nanmax(unseen.steps[0]) == 200
    assert np.nanmax(unseen.steps[1]) == 400
    figures = {path.name for path in (evolved / "figures").iterdir()}
    assert figures >= {"scores.png", "learning_curves.png"}
    assert (evolved / "report.html").is_file()

    recorded = record.of_run(evolved)  # for the documentation
    assert recorded["verdict"] == own.verdict().word
    contenders, tasks = recorded["tables"]
    assert [row[0] for row in contenders["rows"]] == list(names)
    winner = own.winner("squared")
    rate = f"learning_rate {own.settings[1, winner, 0]:.3g}" if winner else "untuned"
    assert contenders["rows"][1][-1].startswith(rate)
    assert [row[0] for row in tasks["rows"]] == ["GridWorld", "corridor", "all, scaled"]


@pytest.mark.long
def test_an_evolution_that_goes_on_is_judged_anew(evolved, tmp_path):
    path = shutil.copytree(evolved, tmp_path / "run")
    before = Scores.load(path / "scores.npz")
    resume = ["--resume", "--run-dir", str(path), "--evaluation.unseen", "{}"]
    assert evolve([*resume, "--evolution.generations", "2", "--evaluation.seeds", "0"]) == 0
    assert not (path / "scores.npz").exists()
    assert not (path / "unseen.npz").exists()
    assert evolve([*resume, "--evaluation.seeds", "16"]) == 0
    now = Scores.load(path / "scores.npz")
    assert not np.array_equal(now.held_out[0], before.held_out[0])
    np.testing.assert_array_equal(now.held_out[1], before.held_out[1])  # of squared error


@pytest.mark.long
def test_a_run_is_judged_on_other_unseen_tasks_and_on_another_grid(evolved, tmp_path, capsys):
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text("small: {env: GridWorld, env_params: {size: 2}}\n")
    argv = ["--run-dir", str(evolved), "--unseen", str(tasks), "--evaluation.seeds", "8"]
    place = evolved / "transfer" / "unseen"
    assert evaluate([*argv, "--dry-run"]) == 0
    assert "contenders x" in capsys.readouterr().out
    assert not place.parent.exists()
    assert evaluate(argv) == 0
    assert Scores.load(place / "unseen.npz").tasks == ("small",)
    assert not (place / "scores.npz").exists()
    assert (place / "report.html").exists()
    argv = ["--run-dir", evolved, "--name", "wide", "--task.env_params.size", "[2,4]"]
    argv += ["--hyperparams.gamma", "0.9", "--evaluation.seeds", "4"]
    assert evaluate([*map(str, argv), "--comparison", "quick"]) == 0
    there = evolved / "transfer" / "wide"
    assert Scores.load(there / "scores.npz").seeds == 4
    settings = load_yaml(there / "config.yaml")["config"]
    assert settings["task"]["env_params"] == {"size": [2, 4], "slip_probability": 0.1}
    assert settings["hyperparams"]["gamma"] == 0.9


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--task.env GridWorldz", "GridWorldz"),
        ("--task.env FrozenLake-misc --task.env_params.size 3", "size"),
        ("--task.env CartPole-v1", "CartPole-v1"),
        ("--task.env [GridWorld,FourRooms-misc]", "task.env"),
        ("--strategy.sigma 0.5", "strategy.sigma"),
        ("--task.env_params.size 5 --evaluation.seeds 0", "evaluation.seeds"),
        ("--evaluation.seeds 9", "--task.env"),
        ("--name wide --task.env_params.size 4", "--name"),
        ("--config other.yaml", "--config"),
    ],
)
def test_invalid_evaluations_are_refused(evolved, refused, line, text):
    (evolved / ".." / "other.yaml").write_text("learner: q_learning\nevolve: value_loss\n")
    line = line.replace("other.yaml", str(evolved / ".." / "other.yaml"))
    assert text in refused(evaluate, ["--run-dir", str(evolved), *line.split()])


def test_a_smaller_judgement_needs_no_more_trainings():
    full = {"seeds": 512, "settings": 100, "screening_seeds": 4, "unseen": {"a": {}}}
    quick = resized(full, "quick")
    assert (quick["seeds"], quick["settings"], quick["screening_seeds"]) == (48, 100, 1)
    assert resized(full, "none") == {**full, "seeds": 0, "unseen": {}}
    assert resized(full, "full") == full
    assert resized({"seeds": 3}, "quick") == {"seeds": 3}  # other studies have fewer settings
    small = EvaluationConfig(seeds=512, settings=100, quick_unseen=True)
    assert (small.budget().seeds, small.budget(unseen=True).seeds) == (512, 48)
    assert small.budget(unseen=True).settings == 100
