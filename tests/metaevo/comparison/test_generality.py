"""`metaevo generality`: references, scores, kept results, bad input."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import metaevo
from metaevo import statistics
from metaevo.__main__ import main
from metaevo.commands import generality as command
from metaevo.comparison.generality import judge, measure, references, result, rows
from metaevo.comparison.generality.measure import key_of, rates_of
from metaevo.comparison.generality.references import measure_references
from metaevo.comparison.generality.rules import Rule, key_of_weights, rule_of
from metaevo.comparison.generality.tasks import benchmark, read_references
from metaevo.config import to_dict
from metaevo.parts import ValueLossNetwork, published, saved
from metaevo.parts.part import Parts
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import RunDirectory
from purerl.types import Context
from tests.metaevo.evolving import settings_of

LIST = benchmark()
TINY = dataclasses.replace(
    LIST,
    seeds=2,
    tuning_seeds=1,
    learning_rates={"default": (1e-3, 1e-2)},
    frames={"short": 64, "medium": 64, "long": 64},
    train={"num_envs": 4, "num_steps": 16, "hidden_sizes": [4]},
    tasks={"cartpole": LIST.tasks["cartpole"]},
)
TWO = dataclasses.replace(TINY, tasks={name: LIST.tasks[name] for name in ("cartpole", "grid")})


def test_recorded_references_fit_the_task_list():
    kept = read_references()["tasks"]
    assert list(kept) == list(LIST.tasks)
    for name, each in kept.items():
        assert each["key"] == key_of(LIST, name), f"measure the references of {name} anew"
        assert len(each["random"]) == len(each["tuned"]) == LIST.seeds
        assert statistics.compare(each["tuned"], each["random"]).conclusion == "better"
        assert each["learning_rate"] in LIST.learning_rates["default"]


def key_of_rule(row):
    """The digest of a row's rule as it is now; of published weights without their file."""
    if "weights" not in row:
        return rule_of(row["rule"]).key
    if row["rule"] == "celo":  # on record only
        return row["key"]
    (rule,) = (each for each in published.RULES if each.name == row["rule"])
    assert row["weights"] == rule.source()
    return key_of_weights(rule)


def test_recorded_rows_match_their_scores():
    ends = read_references()["tasks"]
    for row in rows.scored():
        tasks = {*row["tasks"], *row["unable"]}
        assert tasks == set(LIST.of_version(row["version"]))
        assert row["key"] == key_of_rule(row), f"{row['rule']} has changed: measure again"
        scores = result.normalised(row["tasks"], ends)
        core = LIST.of_version(1)
        unseen = [scores[name] for name in core if name in scores and name not in row["seen"]]
        # of equally many agents on every task, the statistic of all of them
        everything = np.concatenate(unseen)
        assert row["score"]["iqm"] == pytest.approx(scipy.stats.trim_mean(everything, 0.25))


def test_a_row_on_record_is_a_line_of_the_result():
    task = {"learning_rate": 0.1, "scores": [1.23456789, None], "iqm": 1.0}
    content = {**rows.recorded()["adam"], "rule": "x", "complete": True, "tasks": {"grid": task}}
    kept = json.loads(f"{{{rows.line_of(content)}}}")["x"]
    assert kept["tasks"] == {"grid": {"learning_rate": 0.1, "scores": [1.23457, None]}}
    assert set(kept) == set(rows.recorded()["adam"])


def test_another_training_has_another_key():
    changed = dataclasses.replace(LIST, train={**LIST.train, "update_epochs": 3})
    later = dataclasses.replace(LIST.tasks["grid"], since=2)
    other = dataclasses.replace(LIST, tasks={**LIST.tasks, "grid": later})
    measured_again = dataclasses.replace(LIST.with_other_keys(), seeds=LIST.seeds)
    keys = {key_of(each, "grid") for each in (LIST, changed, other, measured_again)}
    assert len(keys) == 4
    assert key_of(LIST, "grid") != key_of(LIST, "deep-sea")


def test_scores_are_put_on_the_scale_of_their_task():
    ends = {"a": {"random": [9.0, 11.0], "tuned": [20.0, 40.0]}}
    measured = {"a": {"scores": [10.0, 30.0, 50.0, None]}}
    found = result.normalised(measured, ends)["a"]
    # who has no score counts as the worst of random play: 9
    np.testing.assert_allclose(found, [0.0, 1.0, 2.0, -0.05])


def test_seen_tasks_are_excluded_from_the_score():
    ends = {name: {"random": [0.0, 0.0], "tuned": [1.0, 1.0]} for name in TWO.tasks}
    measured = {
        "cartpole": {"scores": [2.0, 2.0], "learning_rate": 1e-3},
        "grid": {"scores": [0.5, 0.5], "learning_rate": 1e-2},
    }
    rule = Rule("zoo:x", "make_optimizer", "", ("CartPole-v1",))
    found = result.result(TWO, rule, [1e-3, 1e-2], measured, ends)
    assert found["seen"] == ["cartpole"]
    assert found["score"] == {"iqm": 0.5, "interval": (0.5, 0.5), "tasks": 1}
    assert found["all"]["iqm"] == 1.25
    assert found["families"]["control"] is None  # all of it was seen
    assert found["families"]["grids"]["iqm"] == 0.5
    assert found["better_than_ppo"] == 0.5
    assert result.table(found, TWO).note.startswith("grids ")
    assert "on 1 task that" in result.headline(found)


def test_a_rule_that_saw_every_task_has_no_scores_of_families():
    ends = {"cartpole": {"random": [0.0, 0.0], "tuned": [1.0, 1.0]}}
    measured = {"cartpole": {"scores": [2.0, 2.0], "learning_rate": 1e-3}}
    rule = Rule("zoo:x", "make_optimizer", "", ("CartPole-v1",))
    found = result.result(TINY, rule, [1e-3, 1e-2], measured, ends)
    assert result.table(found, TINY).note == "Agents that beat the mean of tuned PPO: 100%."


def test_kept_tasks_complete_the_progress_bar(monkeypatch):
    bars = []

    class Bar(Progress):
        def close(self):
            bars.append((self.n, self.total))
            super().close()

    kept = {"scores": [0.5, 0.5], "learning_rate": 1e-3}
    ends = {name: {"random": [0.0, 0.0], "tuned": [1.0, 1.0]} for name in TWO.tasks}
    monkeypatch.setattr(judge, "Progress", Bar)
    monkeypatch.setattr(judge, "measure", lambda *_: kept)
    job = judge.Job(TWO, list(TWO.tasks), rule_of("huber"), [1e-3, 1e-2], ends)
    judge.judge(job)
    frames = 64 * len(TWO.tasks) * (2 + 2)
    assert set(bars) == {(frames, frames)}


def test_tasks_of_a_later_version_do_not_change_the_score():
    wide = dataclasses.replace(LIST.tasks["grid"], train={"hidden_sizes": [8]}, since=2)
    more = dataclasses.replace(TWO, version=2, tasks={**TWO.tasks, "grid-wide": wide})
    ends = {name: {"random": [0.0, 0.0], "tuned": [1.0, 1.0]} for name in more.tasks}
    measured = {
        name: {"scores": [value, value], "learning_rate": 1e-3}
        for name, value in {"cartpole": 2.0, "grid": 0.5, "grid-wide": 3.0}.items()
    }
    rule = Rule("x", "make_optimizer", "", ())
    found = result.result(more, rule, [1e-3, 1e-2], measured, ends)
    assert found["score"]["iqm"] == found["all"]["iqm"] == 1.25
    assert found["families"]["grids"]["iqm"] == 0.5
    assert found["added"] == {"iqm": 3.0, "interval": (3.0, 3.0), "tasks": 1}
    assert (found["version"], found["complete"], more.of_version(1)) == (2, True, list(TWO.tasks))
    alone = result.result(more, rule, [1e-3, 1e-2], {"grid-wide": measured["grid-wide"]}, ends)
    assert result.interval_of(alone["added"]) in result.headline(alone)


@pytest.fixture(scope="module")
def tiny_references(tmp_path_factory):
    """The references of `TINY`."""
    folder = tmp_path_factory.mktemp("references")
    (folder / "tasks").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "_has_scale", lambda kept: True)  # of two agents, untrained
        measure_references(TINY, folder, folder / "references.json", lambda: None)
        found = read_references(folder / "references.json")
    found["tasks"]["cartpole"]["random"] = [0.0, 0.0]  # nobody learns anything in 64 steps
    return found


@pytest.fixture
def tiny(tiny_references, monkeypatch):
    """A small list of tasks in the place of the shipped one, with references of its own."""
    monkeypatch.setattr(judge, "benchmark", lambda: TINY)
    monkeypatch.setattr(command, "benchmark", lambda: TINY)
    monkeypatch.setattr(judge, "read_references", lambda: tiny_references)
    return tiny_references


def run(capsys, *argv):
    """What a successful command prints."""
    assert main(["generality", *map(str, argv)]) == 0
    return capsys.readouterr().out


@pytest.mark.long
@pytest.mark.usefixtures("tiny")
def test_measurements_are_kept_and_equal_in_python(tmp_path, capsys, monkeypatch):
    output = tmp_path / "out"
    run(capsys, "huber", "--output", output)
    kept = json.loads((output / "result.json").read_text())
    assert list(kept["tasks"]) == ["cartpole"]
    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "empty")
        found = metaevo.generality("huber")
        other = metaevo.generality("huber", other_keys=True)
    assert not list((tmp_path / "empty").iterdir())
    assert found.score.value == pytest.approx(kept["score"]["iqm"])
    assert len(other.tasks[0].normalised) == 32
    assert other.tasks[0].normalised[:2] != found.tasks[0].normalised
    assert (found.rule, found.slot, found.complete) == ("huber", "value_loss", True)
    (record,) = found.table()
    assert record["score"] == pytest.approx(kept["tasks"]["cartpole"]["iqm"])
    assert (record["task"], record["family"], record["seen"]) == ("cartpole", "control", False)
    (path,) = found.draw(tmp_path / "figures")
    assert path.exists()

    def refuse(*_):
        raise AssertionError("trained again")

    before = (output / "tasks" / "cartpole.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(measure.Bench, "_train", refuse)
        run(capsys, "huber", "--output", output)
        with pytest.raises(AssertionError, match="trained again"):  # with other rates
            main(["generality", "huber", "--output", str(output), "--learning_rates", "0.1", "0.2"])
    (output / "tasks" / "cartpole.json").write_text("{")
    with pytest.warns(UserWarning, match=r"measuring again: .*cartpole.json"):
        run(capsys, "huber", "--output", output)
    assert (output / "tasks" / "cartpole.json").read_bytes() == before


@pytest.mark.long
def test_ppo_is_the_reference_itself(tiny):
    """Adam's agents of the reference's seeds are those that the references kept."""
    bench = measure.Bench(TINY, "cartpole", rule_of("adam"))
    kept = tiny["tasks"]["cartpole"]
    rate = kept["learning_rate"]
    scores = bench.score(rate, measure.Purpose.NORMALISATION)
    known = np.isfinite(scores)  # one that has finished no episode is kept as the worst
    np.testing.assert_allclose(scores[known], np.asarray(kept["tuned"])[known], rtol=1e-5)
    assert known.any()
    assert not np.array_equal(bench.score(rate), scores)  # on fresh seeds


def test_rules_are_found_by_name():
    assert rule_of("sgd").slot == "make_optimizer"
    assert rule_of("dpo").slot == "policy_loss"
    assert rule_of("zoo:dpo").seen == ()
    found = rule_of("zoo:ppo-optimizer")
    assert (found.slot, found.seen, found.name) == (
        "make_optimizer", ("CartPole-v1",), "ppo-optimizer",
    )  # fmt: skip
    assert len({rule_of(text).key for text in ("sgd", "dpo", "zoo:dpo", "zoo:ppo-optimizer")}) == 4
    assert rates_of(LIST, rule_of("sgd"), None)[-1] == 1.0
    assert rates_of(LIST, rule_of("dpo"), None) == list(LIST.learning_rates["default"])


def test_a_whole_learner_is_a_rule(tmp_path):
    found = rule_of("dqn")
    assert (found.slot, found.learner, found.settings) == ("learner", "dqn", {})
    assert rates_of(LIST, found, None) != list(LIST.learning_rates["default"])
    settings = LIST.settings("pendulum", "dqn")
    assert settings["train"]["hidden_sizes"] == LIST.train["hidden_sizes"]
    assert settings["train"]["total_timesteps"] == LIST.frames["long"]
    assert settings["hyperparams"] == {"gamma": 0.95}  # the task's
    assert "update_epochs" not in settings["train"]  # PPO's
    assert key_of(LIST, "grid", "dqn") != key_of(LIST, "grid")
    source = Path("examples/sac.py").read_text(encoding="utf-8")
    keys = set()
    for folder, text in (("a", source), ("b", source), ("c", f"{source}# other\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sac.py").write_text(text, encoding="utf-8")
        own = rule_of(f"{tmp_path / folder / 'sac.py'}:sac")
        keys.add(own.key)
    assert own.name == "sac"
    assert len(keys) == 2  # of the code, wherever it is


PART = """
from dataclasses import dataclass
import jax.numpy as jnp
from metaevo import Part
@dataclass(frozen=True)
class Clip(Part):
    slot = "policy_loss"
    clip: float = 0.2
    def init(self, key):
        return jnp.float32(1.0)
    def apply(self, meta_params, context, log_ratio, advantage):
        ratio, near = jnp.exp(log_ratio), jnp.clip(jnp.exp(log_ratio), 1 - self.clip, 1.2)
        return -meta_params * jnp.minimum(ratio * advantage, near * advantage)
"""


def test_a_part_in_a_file_is_a_rule(tmp_path):
    keys = []
    for folder, text in (
        ("a", PART),
        ("b", PART),
        ("c", PART.replace("1.2", "1.3")),
    ):
        path = tmp_path / folder / "my_clip.py"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        found = rule_of(str(path))
        keys.append(found.key)
        settings = {"policy_loss": str(path)}
        assert (found.slot, found.seen, found.settings) == ("policy_loss", (), settings)
    assert keys[0] == keys[1] != keys[2]  # of the code, wherever it is
    bench = measure.Bench(TINY, "cartpole", found)
    meta_params = jnp.float32(1.0)
    context = Context(bench.hyperparams)
    loss = bench.population.task.learner.policy_loss(
        {"policy_loss": meta_params}, context, 0.5, 1.0
    )
    assert loss == pytest.approx(-1.3)
    other = tmp_path / "other.py"
    other.write_text(PART.replace("policy_loss", "channel"), encoding="utf-8")
    with pytest.raises(metaevo.ConfigError, match="channel"):
        rule_of(str(other))


def test_a_rule_trains_the_learner_that_has_its_slot():
    found = rule_of("a2c")
    assert (found.slot, found.learner, found.settings) == (
        "update_rule", "lpg", {"update_rule": "a2c"},
    )  # fmt: skip
    assert {rule_of(text).learner for text in ("squared", "adam", "constant")} == {"ppo"}
    names = ["cartpole", "pendulum"]
    job = judge.prepare("a2c", tasks=names, learning_rates=None)
    assert (job.tasks, job.unable) == (["cartpole"], ["pendulum"])


def test_tasks_that_a_learner_cannot_train_are_left_out():
    names = ["cartpole", "pendulum", "grid"]
    job = judge.prepare("dqn", tasks=names, learning_rates=None)
    assert (job.tasks, job.unable) == (["cartpole", "grid"], ["pendulum"])
    with pytest.raises(metaevo.ConfigError, match="task pendulum: "):
        judge.prepare("dqn", tasks=["pendulum"], learning_rates=None)
    ends = {name: {"random": [0.0, 0.0], "tuned": [1.0, 1.0]} for name in TWO.tasks}
    measured = {"grid": {"scores": [0.5, 0.5], "learning_rate": 1e-3}}
    found = result.result(TWO, job.rule, [1e-3, 1e-2], measured, ends, ["cartpole"])
    assert (found["complete"], found["unable"]) == (True, ["cartpole"])
    assert found["tuning_frames"] == 64 * 2


@pytest.mark.long
def test_a_learner_is_tuned_and_scored(tmp_path):
    few = dataclasses.replace(TWO, frames={"short": 256, "medium": 256, "long": 256})
    bench = measure.Bench(few, "grid", rule_of("lpg"))
    found = measure.measure(bench, [1e-3, 1e-2], tmp_path / "x.json")
    assert len(found["scores"]) == few.seeds
    assert found["learning_rate"] in (1e-3, 1e-2)


@pytest.mark.parametrize(
    "line",
    [
        "adm",
        "zoo:mfos-ipd",
        "adam --learning_rates 1",
        "adam --learning_rates 1 2 3 nan",
        "adam --references x.json",
        "zoo:ppo-drift --tasks cartpole cartpole-wide",  # it was evolved on both
        "--other-keys",
        "adam --submit",
    ],
)
def test_bad_input_is_one_line(line, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(main, ["generality", *line.split()])


def test_a_folder_that_does_not_exist_suggests_a_similar_one(tmp_path):
    (tmp_path / "first").mkdir()
    with pytest.raises(metaevo.ConfigError) as caught:
        metaevo.generality(tmp_path / "frist")
    assert str(caught.value).endswith(f"(did you mean {tmp_path / 'first'}?)")


def test_one_task_needs_no_list():
    with pytest.raises(metaevo.ConfigError, match=r"'cartpol'.*did you mean cartpole"):
        metaevo.generality("dpo", tasks="cartpol")


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
