import dataclasses
import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.stats

import metaevo
from metaevo import statistics
from metaevo.__main__ import main
from metaevo.commands import generality as command
from metaevo.judging.generality import measured, measurement, tasks
from metaevo.judging.generality.measured import Measured, TaskScores, recorded
from metaevo.judging.generality.measurement import Measurement, population_of
from metaevo.judging.generality.rules import rule_of
from metaevo.judging.generality.tasks import Reference, benchmark
from metaevo.judging.scores import Scores
from metaevo.parts import ValueLossNetwork, records
from metaevo.parts.part import Parts
from metaevo.runs.run_directory import RunDirectory
from purerl.types import Context

LIST = benchmark()
RATES = 0.1, 0.2, 0.3, 0.4
TINY = dataclasses.replace(
    LIST,
    seeds=2,
    tuning_seeds=1,
    learning_rates={"default": RATES},
    frames={"short": 2048},
    learners={"q_learning": {"train": {"num_steps": 16}}},
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
        ends = {name: Reference(TINY.key(name), random, tuned) for name in TINY.tasks}
        listed = dataclasses.replace(TINY, references=ends)
        for module in (tasks, measured, measurement):
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
        assert each.key == LIST.key(name), f"the references of {name} are of another task"
        assert len(each.random) == len(each.tuned) == LIST.seeds
        assert statistics.compare(each.tuned, each.random).conclusion == "better"


OTHERS = re.compile("celo|disco|open-.*")
"""Published rules of other authors, which are on record only."""


def test_recorded_rows_match_their_scores():
    rows = recorded()
    for row in rows:
        known = {name for name, spec in LIST.tasks.items() if spec.since <= row.version}
        assert {*row.tasks, *row.unable} == known
        if not OTHERS.fullmatch(row.rule):
            assert row.key == rule_of(row.rule).key, f"{row.rule} has changed: measure again"
        everything = []
        for name, each in row.tasks.items():
            low, high = map(np.mean, (LIST.references[name].random, LIST.references[name].tuned))
            if LIST.tasks[name].since == 1 and name not in row.seen:
                everything += [(score - low) / (high - low) for score in each.scores]
        # of equally many agents on every task, the statistic of all of them
        assert row.score().value == pytest.approx(scipy.stats.trim_mean(everything, 0.25))
        assert json.loads(f"{{{row.line()}}}")[row.rule]["seen"] == list(row.seen)
    assert [row[0] for row in command.table(rows).rows] == [row.rule for row in rows]


@pytest.mark.long
def test_a_row_that_is_measured_again_has_the_scores_on_record():
    (row,) = (each for each in recorded() if each.rule == "dqn")
    found = metaevo.generality("dqn", tasks="grid").tasks["grid"]
    assert found.learning_rate == row.tasks["grid"].learning_rate
    close = np.isclose(found.scores, row.tasks["grid"].scores, rtol=1e-4)
    assert close.mean() >= 0.5  # rounding differs between machines, and training is chaotic


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
    assert [record["seen"] for record in seen.table()] == [True, False, False]
    nothing = result(scores, seen=("cartpole", "grid"))
    rows = command.table([seen, nothing]).rows
    assert rows[0][:5] == ["x", "0.50 [0.50, 0.50]", "1", "", "0.50"]
    assert (rows[1][1], rows[1][-1]) == ("-", "3.00")


@pytest.mark.usefixtures("tiny")
def test_interrupted_measurements_continue_and_equal_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = metaevo.generality("q_learning", tasks="grid").tasks["grid"].scores
    assert not list(tmp_path.iterdir())
    folder, results = tmp_path / "runs" / "generality" / "q_learning", []
    for _ in range(2):
        assert main(["generality", "q_learning", "--tasks", "grid", "grid-wide"]) == 0
        kept = {file.name: file.stat().st_mtime_ns for file in (folder / "tasks").iterdir()}
        results.append((Scores.load(folder / "scores.npz").held_out[0, :, 0].tolist(), kept))
        for file in (folder / "tasks").glob("grid-wide-*.json"):
            file.unlink()  # the second time as if the first had been interrupted
    (scores, first), (again, second) = results
    assert scores == again
    assert scores[0] == list(found) != scores[1]  # with the keys of another version
    assert sorted(first) == sorted(second)
    assert [first[name] == second[name] for name in sorted(first)].count(True) == 1
    row = json.loads(f"{{{(folder / 'row.json').read_text()}}}")["q_learning"]
    assert row["tasks"]["grid"]["scores"] == list(found)


@pytest.mark.usefixtures("tiny")
def test_kept_results_are_of_the_same_rates_and_keys():
    same, rates, keys = (
        Measurement("q_learning", ["grid"], given, other_keys=other)
        for given, other in ((None, False), ((0.1, 0.2, 0.3, 0.5), False), (None, True))
    )
    assert len({same.key("grid"), rates.key("grid"), keys.key("grid")}) == 3
    assert keys.benchmark.seeds == 32


@pytest.mark.parametrize(
    ("text", "slot", "learner", "seen"),
    [
        ("sgd", "make_optimizer", "ppo", ()),
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
    ("file", "name", "slot"),
    [("examples/tilted.py", "", "value_loss"), ("purerl/sac.py", ":LEARNER", "learner")],
)
def test_code_in_files_is_known_by_its_text(file, name, slot, tmp_path):
    text, keys = Path(file).read_text(encoding="utf-8"), []
    for folder, content in {"a": text, "b": text, "c": f"{text}# other\n"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rule.py").write_text(content, encoding="utf-8")
        found = rule_of(f"{tmp_path / folder}/rule.py{name}")
        assert (found.slot, found.seen) == (slot, ())
        keys.append(found.key)
    assert keys[0] == keys[1] != keys[2]  # wherever it is


def test_a_part_in_a_file_fills_its_slot(tmp_path):
    bound = population_of(TINY, "cartpole", rule_of("examples/tilted.py")).task
    start = {"under": 0.0, "over": 0.0, "slope": 0.0}

    def loss(prediction, **changes):
        meta_params = {"value_loss": start | changes}
        return bound.learner.value_loss(meta_params, Context(None), prediction, 2.0, 0.0)

    assert loss(0.0, under=0.5, slope=1.0) == pytest.approx(2 * np.exp(0.5) - 0.2)
    assert loss(4.0, over=np.log(3.0)) == pytest.approx(6.0)
    assert loss(0.0) == loss(0.0, over=1.0) == loss(4.0, under=1.0) == 2.0
    other = tmp_path / "other.py"
    text = Path("examples/tilted.py").read_text(encoding="utf-8")
    other.write_text(text.replace('"value_loss"', '"channel"'), encoding="utf-8")
    with pytest.raises(metaevo.ConfigError, match="channel"):
        rule_of(str(other))


def test_tasks_that_a_learner_cannot_train_are_left_out():
    for rule in ("dqn", "a2c"):
        found = Measurement(rule, ["cartpole", "pendulum", "grid"])
        assert (list(found.populations), found.unable) == (["cartpole", "grid"], ["pendulum"])
    with pytest.raises(metaevo.ConfigError, match="task pendulum: "):
        Measurement("dqn", ["pendulum"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("adm", "did you mean adam?"),
        ("adam --tasks cartpol", "did you mean cartpole?"),
        ("adam --learning_rates 1 2 3 nan", "must be 4 positive numbers"),
        ("zoo:ppo-drift --tasks cartpole cartpole-wide", "was evolved on all of these"),
        ("--other-keys", "RULE"),
    ],
)
def test_bad_input_is_one_line(line, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(main, ["generality", *line.split()])


def test_a_run_is_a_rule(tmp_path):
    part, keys = ValueLossNetwork(), []
    evolved = Parts({part.slot: part})
    for seed in (0, 1):
        run = RunDirectory.create(tmp_path / str(seed), "test")
        tasks = {"task": {"env": "Catch-bsuite"}}
        records.write(run, evolved, part.init(jax.random.key(seed)), 1, tasks)
        found = rule_of(str(run.path))
        assert (found.slot, found.seen) == ("value_loss", ("Catch-bsuite",))
        assert found.name == str(seed)
        keys.append(found.key)
    assert keys[0] != keys[1]
