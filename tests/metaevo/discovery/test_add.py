"""`metaevo zoo`: its list, its cards, and entries made from runs."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest
from PIL import Image

import metaevo
from metaevo.__main__ import main
from metaevo.comparison.generality.rules import rule_of
from metaevo.components import discovery, filling, parts, players, value_loss, zoo
from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.discovery.zoo_add import add
from metaevo.discovery.zoo_card import seen_tasks, text_of
from metaevo.discovery.zoo_repeat import repeat
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies import registry as studies
from metaevo.studies.games import tournament
from metaevo.studies.games.settings import OpponentConfig
from metaevo.studies.learner import LearnerStudy
from tests.metaevo.evolving import settings_of, study_of
from tests.metaevo.toy import assert_same

SIZES = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32, "update_epochs": 1}
SCORES = list(np.linspace(100.0, 140.0, 8))


@pytest.fixture
def own(tmp_path, monkeypatch):
    folder = tmp_path / "entries"
    folder.mkdir()
    monkeypatch.setattr(zoo, "FOLDER", folder)
    return folder


def evidence(scores, tuned=(0, 64), names=("learned", "squared"), **more):
    """evaluation.json: each function with its own scores, by default the same."""
    rows = [
        {
            "name": f"{name} ({frames})", "function": name, "settings": {}, "tuning_frames": frames,
            "seeds": 8, "scores": own, "iqm": 1.0, "interval": [0.0, 2.0], "mean": 1.0,
            "diverged": 0,
        }
        for name, own in zip(names, scores, strict=True)
        for frames in tuned
    ]  # fmt: skip
    pair = {
        "learned": rows[0]["name"], "other": rows[-1]["name"], "conclusion": "undecided",
        "difference": 0.0, "difference_interval": [-5.0, 5.0], "p": 1.0,
        "probability_of_improvement": 0.5, "probability_interval": [0.0, 1.0],
    }  # fmt: skip
    return {
        "variants": rows, "pairs": [pair], "against_best": pair, "conclusion": "undecided",
        "learned": rows[0]["name"], "best_hand_written": rows[-1]["name"],
        "evolution_frames": 1000, "frames_per_agent": 10, **more,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """A run of evolution that has ended with a comparison."""
    settings = settings_of({"evolve": "value_loss"})
    run = RunDirectory.create(tmp_path / "run", "test")
    run.write_config(to_dict(settings), {})
    meta_params = value_loss.make(settings.component).init(jax.random.key(0))
    evolved = parts.make("value_loss", settings.component)
    discovery.save(run, evolved, meta_params, 3, "ppo")
    run.evaluation_path.write_text(json.dumps(evidence([SCORES, SCORES])))
    return run


def test_an_entry_loads_what_its_run_found(run, own):
    run.figures.mkdir()
    Image.new("RGB", (1600, 900), "white").save(run.figures / "loss.png")
    argv = ["zoo", "add", str(run.path), "--name", "mine", "--title", "a loss"]
    assert main(argv) == 0
    function, meta_params = metaevo.load("zoo:mine")
    was, expected = discovery.load(run.path)
    assert_same(meta_params, expected)
    arguments = None, 1.0, 0.25, 0.5
    assert function(meta_params, *arguments) == was(expected, *arguments)
    repeated = zoo.find("mine").card["repeat"]
    assert repeated["mean"] == pytest.approx(120.0)
    assert repeated["std"] == pytest.approx(np.std(SCORES, ddof=1))
    with Image.open(own / "mine" / "picture.png") as picture:
        assert picture.size == (800, 450)
    assert str(run.path) not in (own / "mine" / "entry.json").read_text()


TASKS = {
    "poles": {"env": "CartPole-v1", "sample": {"env_params.length": {"uniform": [0.3, 1.0]}}},
    "Catch-bsuite": {"train": {"num_envs": 4, "hidden_sizes": [4]}},
}
SMALL = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32, "hidden_sizes": [8]}


@pytest.fixture
def run_on_tasks(tmp_path):
    """A run of evolution on two tasks that has ended with a comparison."""
    raw = {"evolve": "optimizer", "learner": "ppo", "train": SMALL, "tasks": TASKS}
    settings = settings_of(raw)
    study = LearnerStudy(settings)
    run = RunDirectory.create(tmp_path / "run_on_tasks", "test")
    run.write_config(to_dict(settings), {})
    study.save(run, study.evolved.init(jax.random.key(0)), 3)

    def on_task(scores):
        return evidence([scores, scores], (0,), scale=None)

    seen = {"poles": [30.0, 40.0, 50.0, 60.0], "Catch-bsuite": [0.0, 0.0, 1.0, 1.0]}
    tasks = {name: on_task(scores) for name, scores in seen.items()}
    judged = evidence([[[0.9, 1.1]] * 4] * 2, (0,), seen={"tasks": tasks, "without_scale": []})
    run.evaluation_path.write_text(json.dumps(judged))
    return run


def test_an_entry_for_several_tasks_has_a_score_for_each(run_on_tasks, own):
    entry = add(run_on_tasks.path, "mine")
    measures = {name: each["mean"] for name, each in entry.repeats.items()}
    assert measures == {"score on poles": 45.0, "score on Catch-bsuite": 0.5}
    experiment = entry.repeats["score on Catch-bsuite"]["experiment"]
    assert experiment["task"]["env"] == "Catch-bsuite"
    assert (experiment["train"]["num_envs"], experiment["train"]["num_steps"]) == (4, 32)
    poles, catch = seen_tasks(entry.card)
    assert poles[:2] == ["poles", "CartPole-v1"]
    assert "length uniform [0.3, 1.0]" in poles[3]
    assert "train.num_envs 4" in catch[2]
    assert all(cell in text_of(entry) for row in (poles, catch) for cell in row[3].split("; "))


def study_with(rule, run_path=None, **tasks):
    """A study that uses a rule and is to be judged on unseen tasks."""
    raw = {"evolve": "value_loss", "learner": "ppo", "train": SMALL, "make_optimizer": rule,
           "task": {"env": "GridWorld"}, "evaluation": {"unseen": tasks}}  # fmt: skip
    return study_of(raw, run_path)


INSIDE = {"env": "CartPole-v1", "env_params": {"length": 0.4}}
OUTSIDE = {"env": "CartPole-v1", "env_params": {"length": 2.0}}


@pytest.mark.parametrize("name", ["zoo:mine", "run", "copy"])
def test_seen_tasks_are_refused_as_unseen(name, run_on_tasks, own, tmp_path):
    add(run_on_tasks.path, "mine")
    rule, path = name, None
    if name != "zoo:mine":
        rule = str(run_on_tasks.path)
    if name == "copy":
        filling.keep(tmp_path / "other", "make_optimizer", "zoo:mine")
        shutil.rmtree(own / "mine")
        rule, path = "zoo:mine", tmp_path / "other"
    else:
        assert rule_of(rule).seen == ("CartPole-v1", "Catch-bsuite")
    study = study_with(rule, path, far=OUTSIDE)
    assert list(study.unseen) == ["far"]
    for inside in (INSIDE, {"env": "Catch-bsuite"}):
        with pytest.raises(ConfigError, match=r"unseen.near: make_optimizer = .* was evolved on"):
            study_with(rule, path, near=inside)


def ended(path, study):
    """A run of a study of games that has ended with a comparison, its settings and its result."""
    raw = {"study": study}
    if study == "cheap_talk":
        raw |= {"role": "adversary", "channel": {"hidden_sizes": [4]}, "train": SIZES}
        raw |= {"task": {"env": "CartPole-v1"}, "hyperparams": {"learning_rate": 0.01}}
    kind = studies.find(raw)
    settings = from_dict(kind.settings_class(raw), raw)
    made = kind.make(settings)
    run = RunDirectory.create(path, "test")
    run.write_config(to_dict(settings), {})
    scores = [[-10.0], [-20.0], [-20.0], [-30.0]], [[-50.0]] * 4
    run.evaluation_path.write_text(json.dumps(evidence(scores, (0,), ("learned", "silence"))))
    shapes = jax.eval_shape(made.problem({}).init, jax.random.key(0))
    rng = np.random.default_rng(0)
    weights = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    made.save(run, weights, 3)
    return run, made, weights


def test_a_channel_becomes_an_entry_that_agents_hear(tmp_path, own):
    run, _, weights = ended(tmp_path / "run", "cheap_talk")
    add(run.path, "talk")
    function, loaded = metaevo.load("zoo:talk")
    assert_same(loaded, weights)
    assert np.all(np.abs(function(loaded, np.ones(4))) <= 2 * np.pi)
    repeated = zoo.find("talk").card["repeat"]
    assert repeated["mean"] == 20.0  # what victims earn, not what the adversary does
    assert repeated["experiment"]["functions"]["value_loss"] == "squared"  # as the study's victims


def test_a_shaper_becomes_an_entry_that_opponents_meet(tmp_path, own):
    run, study, weights = ended(tmp_path / "run", "shaping")
    add(run.path, "shaper")
    function, loaded = metaevo.load("zoo:shaper")
    assert_same(loaded, weights)
    assert_same(metaevo.load(run.path)[1], weights)
    assert jax.eval_shape(function, loaded, np.zeros(5), np.zeros(5)).shape == (5,)
    for refused in ("value_loss", "channel"):
        with pytest.raises(ConfigError, match=f"zoo:shaper fills opponent.names, not {refused}"):
            metaevo.load("zoo:shaper", slot=refused)
    # A run that meets it keeps a copy.
    (met,) = players.find(["zoo:shaper"], "opponent.names", study.settings.game.game)
    assert met.learns
    players.keep(tmp_path / "other", [met])
    shutil.rmtree(own / "shaper")
    assert_same(players.load("zoo:shaper", tmp_path / "other"), weights)


@pytest.mark.parametrize("names", [["naive", "lola"], "runs/other"])
def test_a_shaper_with_several_or_own_opponents_is_refused(names, tmp_path, own):
    run, study, _ = ended(tmp_path / "run", "shaping")
    opponent = OpponentConfig(names if isinstance(names, str) else tuple(names))
    run.write_config(to_dict(dataclasses.replace(study.settings, opponent=opponent)), {})
    with pytest.raises(ConfigError, match="one opponent"):
        add(run.path, "shaper")


@pytest.mark.long
def test_a_shapers_card_matches_its_study(tmp_path, own):
    run, study, weights = ended(tmp_path / "run", "shaping")
    (repeated,) = repeat(add(run.path, "shaper"), 3).values()
    game = tournament.Tournament(study.settings, {"learned": weights}, study.met, [])
    ours, theirs = game.entrant("learned"), game.opponents()[study.met[0].label]
    expected, _ = game.play(ours, theirs, keys_for(0, Purpose.TRAINING, 3))
    np.testing.assert_allclose(repeated.scores, expected, rtol=1e-4)


@pytest.mark.long
def test_a_channels_card_matches_the_studys_victims(tmp_path, own):
    """Learner, losses, fitness and what is heard are the same in both."""
    run, study, weights = ended(tmp_path / "run", "cheap_talk")
    (repeated,) = repeat(add(run.path, "talk"), 3).values()
    evaluate = jax.vmap(study.problem({}).evaluate, in_axes=(0, None))
    expected = evaluate(keys_for(0, Purpose.TRAINING, 3), weights).fitness
    np.testing.assert_allclose(repeated.scores, -expected, rtol=1e-4)


def test_an_entry_is_replaced_only_by_its_next_version(run, own):
    add(run.path, "mine")
    with pytest.raises(ConfigError, match="zoo:mine exists: entries do not change"):
        add(run.path, "mine")
    assert add(run.path, "mine", replace=True).card["version"] == 2
    assert [path.name for path in own.iterdir()] == ["mine"]


def test_runs_without_evidence_are_refused(run, run_on_tasks, own, refused):
    found = json.loads(run_on_tasks.evaluation_path.read_text())
    del found["seen"]["tasks"]["poles"]
    run_on_tasks.evaluation_path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match="no scores on the tasks poles"):
        add(run_on_tasks.path, "mine")
    settings = run.config_path.read_text()
    run.config_path.write_text(settings.replace("quick: false", "quick: true"))
    with pytest.raises(ConfigError, match="quick look"):
        add(run.path, "mine")
    run.config_path.write_text(settings)
    del found["against_best"]
    run.evaluation_path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match="has no 'against_best'"):
        add(run.path, "mine")
    run.evaluation_path.unlink()
    refused(main, ["zoo", "add", str(run.path), "--name", "mine"])
    assert list(own.iterdir()) == []


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "dpp"],
        ["list", "dpo"],
        ["add"],
        ["add", "nowhere", "--name", "x"],
        ["add", "nowhere", "--name", "A/b"],
        ["repeat", "dpo", "--seeds", "1"],
    ],
)
def test_bad_input_is_one_line(argv, refused):
    refused(main, ["zoo", *argv])
