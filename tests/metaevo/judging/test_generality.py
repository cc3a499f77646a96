"""`metaevo generality`: references, scores, kept results, bad input."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.stats

import metaevo
from metaevo import statistics
from metaevo.__main__ import main
from metaevo.commands import generality as command
from metaevo.commands.generality import table
from metaevo.config import files, to_dict
from metaevo.evolution.seeding import Purpose
from metaevo.judging.generality import measured, measurement
from metaevo.judging.generality.measured import Measured, recorded
from metaevo.judging.generality.measurement import Measurement, measure_references
from metaevo.judging.generality.rules import key_of_weights, rule_of
from metaevo.judging.generality.tasks import FOLDER, Reference, benchmark
from metaevo.judging.generality.trial import TaskScores, Trial
from metaevo.judging.scores import Scores
from metaevo.parts import ValueLossNetwork, published, saved
from metaevo.parts.part import Parts
from metaevo.runs.run_directory import RunDirectory
from purerl.types import Context
from tests.metaevo.evolving import settings_of

LIST = benchmark()
RATES = 1e-3, 1e-2
TINY = dataclasses.replace(
    LIST,
    seeds=2,
    tuning_seeds=1,
    learning_rates={"default": (*RATES, 2e-2, 3e-2)},
    frames={"short": 64, "medium": 64, "long": 64},
    train={"num_envs": 4, "num_steps": 16, "hidden_sizes": [4]},
    tasks={
        "cartpole": LIST.tasks["cartpole"],
        "grid": LIST.tasks["grid"],
        "grid-wide": dataclasses.replace(LIST.tasks["grid"], since=2),
    },
)


@pytest.fixture
def tiny(monkeypatch):
    """Put a small list with made-up references in the place of the shipped one."""

    def use(random, tuned):
        ends = {name: Reference(TINY.key(name), RATES, 1e-3, RATES, random, tuned)
                for name in TINY.tasks}  # fmt: skip
        listed = dataclasses.replace(TINY, references=ends)
        for module in (command, measured, measurement):
            monkeypatch.setattr(module, "benchmark", lambda: listed)

    use((0.0, 0.0), (1.0, 1.0))
    return use


def result(scores, seen=()):
    tasks = {name: TaskScores(1e-3, values) for name, values in scores.items()}
    return Measured(
        rule="x", slot="", key="", version=2, seeds=2, seen=seen, unable=(), commit="", tasks=tasks
    )


def test_recorded_references_fit_the_task_list():
    assert list(LIST.references) == list(LIST.tasks)
    for name, each in LIST.references.items():
        assert each.key == LIST.key(name), f"measure the references of {name} anew"
        assert len(each.random) == len(each.tuned) == LIST.seeds
        assert statistics.compare(each.tuned, each.random).conclusion == "better"
        assert each.learning_rate in each.learning_rates == LIST.learning_rates["default"]


def key_of_rule(row):
    """The digest of a row's rule as it is now; of published weights without their file."""
    if row.weights is None:
        return rule_of(row.rule).key
    if row.rule == "celo":  # on record only
        return row.key
    (rule,) = (each for each in published.RULES if each.name == row.rule)
    assert row.weights == rule.source()
    return key_of_weights(rule)


def test_recorded_rows_match_their_scores():
    rows = recorded()
    for row in rows:
        known = {name for name, spec in LIST.tasks.items() if spec.since <= row.version}
        assert {*row.tasks, *row.unable} == known
        assert row.key == key_of_rule(row), f"{row.rule} has changed: measure again"
        everything = []
        for name, each in row.tasks.items():
            low, high = map(np.mean, (LIST.references[name].random, LIST.references[name].tuned))
            if LIST.tasks[name].since == 1 and name not in row.seen:
                everything += [(score - low) / (high - low) for score in each.scores]
        # of equally many agents on every task, the statistic of all of them
        assert row.score().value == pytest.approx(scipy.stats.trim_mean(everything, 0.25))
        assert json.loads(f"{{{row.line()}}}")[row.rule]["seen"] == list(row.seen)
    assert [row[0] for row in table(rows).rows] == [row.rule for row in rows]


def test_another_training_has_another_key():
    changed = dataclasses.replace(LIST, train={**LIST.train, "update_epochs": 3})
    later = dataclasses.replace(LIST.tasks["grid"], since=2)
    other = dataclasses.replace(LIST, tasks={**LIST.tasks, "grid": later})
    measured_again = dataclasses.replace(LIST.with_other_keys(), seeds=LIST.seeds)
    keys = {each.key("grid") for each in (LIST, changed, other, measured_again)}
    assert len({*keys, LIST.key("deep-sea"), LIST.key("grid", "dqn")}) == 6


def test_scores_are_put_on_the_scale_of_their_task(tiny):
    tiny((9.0, 11.0), (20.0, 40.0))
    found = result({"cartpole": (10.0, 30.0, 50.0, None)}).scores
    # who has no score counts as the worst of random play: 9, which is -0.05
    assert found.held_out.ravel().tolist() == [10.0, 30.0, 50.0, 9.0]
    assert found.iqm("x").value == pytest.approx((0 + 1) / 2)
    assert found.iqm("x", "cartpole").value == pytest.approx(20)


@pytest.mark.usefixtures("tiny")
def test_scores_leave_out_seen_and_later_tasks():
    scores = {"cartpole": (2.0, 2.0), "grid": (0.5, 0.5), "grid-wide": (3.0, 3.0)}
    whole = result(scores)
    found = {part: whole.score(part).value for part in whole.parts if whole.parts[part]}
    assert found == {"unseen": 1.25, "control": 2, "grids": 0.5, "short": 1.25, "added": 3}
    seen = result(scores, seen=("cartpole",))
    assert seen.score() == (0.5, (0.5, 0.5))
    assert np.isnan(seen.score("control").value)
    assert [record["seen"] for record in seen.table()] == [True, False, False]
    (row,) = table([seen]).rows
    assert row[:5] == ["x", "0.50 [0.50, 0.50]", "1", "", "0.50"]
    (row,) = table([result(scores, seen=("cartpole", "grid"))]).rows
    assert (row[1], row[-1]) == ("-", "3.00")


@pytest.mark.long
@pytest.mark.usefixtures("tiny")
def test_interrupted_measurements_continue_and_equal_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = metaevo.generality("huber", tasks=["cartpole", "grid"])
    assert not list(tmp_path.iterdir())
    other = metaevo.generality("huber", tasks="cartpole", other_keys=True).tasks["cartpole"].scores
    assert len(other) == 32
    assert other[:2] != found.tasks["cartpole"].scores

    trained = []

    def train(self, *arguments):
        trained.append(self.task)
        return original(self, *arguments)

    original, folder = Trial.train, tmp_path / "runs" / "generality" / "huber"
    monkeypatch.setattr(Trial, "train", train)
    line = ["generality", "huber", "--tasks", "cartpole", "grid"]
    for again in (["cartpole", "cartpole", "grid", "grid"], [], ["grid", "grid"]):
        trained.clear()
        assert main(line) == 0
        assert trained == again
        np.testing.assert_array_equal(
            Scores.load(folder / "scores.npz").held_out, found.scores.held_out
        )
        for file in (folder / "tasks").glob("grid-*.json"):
            if not again:  # the third time as if the first had been interrupted
                file.unlink()
    assert json.loads(f"{{{(folder / 'row.json').read_text()}}}")["huber"]["key"] == found.key
    assert (folder / "scores.png").exists()
    trained.clear()
    assert main([*line, "--learning_rates", "0.1", "0.2", "0.3", "0.4"]) == 0
    assert trained == ["cartpole", "cartpole", "grid", "grid"]


@pytest.mark.long
def test_adam_is_the_reference_itself(tmp_path, monkeypatch):
    """Adam's agents of the reference's seeds are those that the references kept."""
    alone = dataclasses.replace(TINY, tasks={"cartpole": TINY.tasks["cartpole"]})
    monkeypatch.setattr(measurement, "benchmark", lambda: alone)
    file = tmp_path / "references.json"
    with pytest.raises(metaevo.ConfigError, match="no better than random play on cartpole"):
        measure_references(tmp_path, file, lambda: None)  # two agents, 64 steps
    (kept,) = (json.loads(path.read_text()) for path in tmp_path.glob("cartpole-*.json"))
    adam, rate = Trial(alone, "cartpole", rule_of("adam"), RATES), kept["learning_rate"]
    (scores,) = adam.train(Purpose.NORMALISATION, 2, [rate])
    known = np.isfinite(scores)  # one that has finished no episode is kept as the worst
    np.testing.assert_allclose(scores[known], np.asarray(kept["tuned"])[known], rtol=1e-5)
    assert known.any()
    assert not np.array_equal(adam.train(Purpose.HELD_OUT, 2, [rate])[0], scores)
    monkeypatch.setattr(measurement, "benchmark", lambda: LIST)
    for name, each in LIST.references.items():
        files.write_json_atomic(tmp_path / f"{name}-{each.key}.json", to_dict(each))
    measure_references(tmp_path, file, lambda: None)  # all are kept
    shipped = json.loads((FOLDER / "references.json").read_text())["tasks"]
    assert json.loads(file.read_text())["tasks"] == shipped


@pytest.mark.parametrize(
    ("text", "slot", "learner", "seen"),
    [
        ("sgd", "make_optimizer", "ppo", ()),
        ("squared", "value_loss", "ppo", ()),
        ("constant", "schedule", "ppo", ()),
        ("dpo", "policy_loss", "ppo", ()),
        ("zoo:dpo", "policy_loss", "ppo", ()),
        ("zoo:ppo-optimizer", "make_optimizer", "ppo", ("CartPole-v1",)),
        ("a2c", "update_rule", "lpg", ()),
        ("dqn", "learner", "dqn", ()),
    ],
)
def test_rules_are_found_by_name(text, slot, learner, seen):
    found = rule_of(text)
    assert (found.name, found.slot, found.learner, found.seen) == (text, slot, learner, seen)


def test_a_learner_has_its_own_settings_and_those_of_the_task():
    settings = LIST.settings("pendulum", "dqn")
    assert settings["train"].items() >= {
        "hidden_sizes": LIST.train["hidden_sizes"], "total_timesteps": LIST.frames["long"],
    }.items()  # fmt: skip
    assert settings["hyperparams"] == {"gamma": 0.95}  # the task's
    assert "update_epochs" not in settings["train"]  # PPO's
    assert LIST.rates("dqn") != list(LIST.learning_rates["default"]) == LIST.rates("dpo")


@pytest.mark.parametrize(
    ("file", "reference", "slot"),
    [("tilted.py", "tilted.py", "value_loss"), ("sac.py", "sac.py:sac", "learner")],
)
def test_code_in_files_is_known_by_its_text(file, reference, slot, tmp_path):
    text, keys = (Path("examples") / file).read_text(encoding="utf-8"), []
    for folder, content in {"a": text, "b": text, "c": f"{text}# other\n"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(content, encoding="utf-8")
        found = rule_of(f"{tmp_path / folder}/{reference}")
        assert (found.slot, found.seen) == (slot, ())
        keys.append(found.key)
    assert keys[0] == keys[1] != keys[2]  # wherever it is


def test_a_part_in_a_file_fills_its_slot(tmp_path):
    bound = Trial(TINY, "cartpole", rule_of("examples/tilted.py"), RATES).population.task
    meta_params = {"value_loss": {"under": 0.5, "over": 0.0, "slope": 1.0}}
    loss = bound.learner.value_loss(meta_params, Context(bound.hyperparams), 0.0, 2.0, 0.0)
    assert loss == pytest.approx(2 * np.exp(0.5) - 0.2)
    other = tmp_path / "other.py"
    text = Path("examples/tilted.py").read_text(encoding="utf-8")
    other.write_text(text.replace('"value_loss"', '"channel"'), encoding="utf-8")
    with pytest.raises(metaevo.ConfigError, match="channel"):
        rule_of(str(other))


def test_tasks_that_a_learner_cannot_train_are_left_out():
    for rule in ("dqn", "a2c"):
        found = Measurement(rule, ["cartpole", "pendulum", "grid"])
        assert (list(found.trials), found.unable) == (["cartpole", "grid"], ["pendulum"])
    with pytest.raises(metaevo.ConfigError, match="task pendulum: "):
        Measurement("dqn", ["pendulum"])


@pytest.mark.long
def test_a_learner_is_tuned_and_scored():
    few = dataclasses.replace(TINY, frames={"short": 256})
    found = Trial(few, "grid", rule_of("lpg"), RATES).measure(None)
    assert (len(found.scores), len(found.tuning)) == (2, 2)
    assert found.learning_rate in RATES


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("adm", "did you mean adam?"),
        ("adam --tasks cartpol", "did you mean cartpole?"),
        ("adam --learning_rates 1", "must be 4 positive numbers"),
        ("adam --learning_rates 1 2 3 nan", "must be 4 positive numbers"),
        ("adam --references x.json", "--references"),
        ("zoo:ppo-drift --tasks cartpole cartpole-wide", "was evolved on all of these"),
        ("--other-keys", "RULE"),
        ("adam --submit", "--submit"),
    ],
)
def test_bad_input_is_one_line(line, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(main, ["generality", *line.split()])


def test_a_run_is_a_rule(tmp_path):
    part = ValueLossNetwork()
    evolved = Parts.single(part, "value_loss")
    settings = settings_of({"evolve": "value_loss"})
    keys = []
    for seed in (0, 1):
        run = RunDirectory.create(tmp_path / str(seed), "test")
        saved.save(run, evolved, part.init(jax.random.key(seed)), 1)
        assert rule_of(str(run.path)).seen == ()
        tasks = {"task": {"env": "Catch-bsuite"}}
        saved.save(run, evolved, part.init(jax.random.key(seed)), 1, tasks)
        assert rule_of(str(run.path)).seen == ("Catch-bsuite",)  # without settings beside it
        run.write_config(to_dict(settings) | {"tasks": {"GridWorld": {}, "Catch-bsuite": {}}}, {})
        found = rule_of(str(run.path))
        assert (found.slot, found.seen) == ("value_loss", ("GridWorld", "Catch-bsuite"))
        assert found.name == str(seed)
        keys.append(found.key)
    assert keys[0] != keys[1]
