"""Comparisons on unseen tasks and on another task: numbers, refusals, results that are kept."""

import json

import numpy as np
import pytest
from scipy import stats

from metaevo.commands.evaluate import main as evaluate
from metaevo.comparison import evaluation, unseen
from metaevo.comparison.comparison import Variant, summary
from metaevo.config import ConfigError, load_yaml, parse_yaml
from metaevo.evolution.seeding import Purpose
from metaevo.runs.signals import StopRequestedError
from metaevo.studies import verdict
from metaevo.studies.tables import by_task
from tests.metaevo import evolving
from tests.metaevo.fake_contenders import Fake, comparison, learned_score

TINY = """
evolve: value_loss
learner: q_learning
task: {env: GridWorld, env_params: {size: 3, slip_probability: 0.1}}
train: {total_timesteps: 200, num_steps: 20}
component: {form: additive, hidden_sizes: [2], start: squared}
fitness: {mean_return: 0, reward_per_step: 10}
strategy: {population_size: 4, sigma: 0.1}
evolution: {generations: 1, validation_seeds: 2, num_devices: 1}
evaluation:
  seeds: 16
  space: {learning_rate: [0.2, 0.5]}
  sampler: grid
  tuning_seeds: 2
  unseen:
    GridWorld: {env_params: {size: 2}, hyperparams: {learning_rate: 0.4}}
    corridor: {env: GridWorld, env_params: {size: 4}, train: {total_timesteps: 400}}
"""


def study_of(text=TINY, **tasks):
    raw = parse_yaml(text, "the test")
    if tasks:
        raw["evaluation"]["unseen"] = {key.replace("_", "-"): each for key, each in tasks.items()}
    return evolving.study_of(raw)


# --- Pooling ------------------------------------------------------------------------------------

VARIANTS = [
    Variant("learned (same hyperparameters)", "learned", {}, 0),
    Variant("squared (same hyperparameters)", "squared", {}, 0),
    Variant("squared (tuned)", "squared", {}, 100),
    Variant("huber (tuned)", "huber", {}, 100),
]


def planted(rng, low, high, learned, huber, seeds=40):
    """Scores of a task whose reference has 1 on its scale; contenders by their places there."""
    places = {"learned": learned, "squared": 1.0, "huber": huber}
    rows = [
        each.measured(low + (high - low) * (places[each.function] + 0.2 * rng.normal(size=seeds)))
        for each in VARIANTS
    ]
    result = summary(rows, ["learned"])
    about = {"tuning_settings": 3, "tuning_rounds": [[3, 64]]}
    return result | about | {"scale": {"random": low, "reference": high}}


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    return {
        "one": planted(rng, -500.0, -100.0, 1.5, 0.9),
        "two": planted(rng, 0.0, 3.0, 1.2, 0.5),
        "flat": planted(rng, 0.0, 1.0, 9.0, 1.0) | {"scale": None},
    }


def test_tasks_are_pooled_on_their_own_scales(results):
    """Against a plain computation in NumPy and SciPy."""
    found = unseen.aggregate(results)
    assert found["without_scale"] == ["flat"]
    assert set(found["tasks"]) == set(results)
    rows = {row["name"]: row for row in found["variants"]}
    tables = {}
    for name in rows:
        columns = []
        for task, low, high in (("one", -500, -100), ("two", 0, 3)):
            (row,) = (each for each in results[task]["variants"] if each["name"] == name)
            columns.append((np.array(row["scores"]) - low) / (high - low))
        tables[name] = np.stack(columns, 1)
    rng = np.random.default_rng(7)
    for name, table in tables.items():
        np.testing.assert_allclose(rows[name]["scores"], table)
        assert rows[name]["iqm"] == pytest.approx(stats.trim_mean(table.ravel(), 0.25))
        redrawn = [  # the seeds of a task with replacement, every task by itself
            stats.trim_mean(
                np.concatenate([column[rng.integers(40, size=40)] for column in table.T]), 0.25
            )
            for _ in range(1000)
        ]
        np.testing.assert_allclose(
            rows[name]["interval"], np.quantile(redrawn, [0.025, 0.975]), atol=0.02
        )
    learned = tables["learned (same hyperparameters)"]
    best = tables["squared (tuned)"]
    wins = [(a[:, None] > b).mean() for a, b in zip(learned.T, best.T, strict=True)]
    judged = found["against_best"]
    assert judged["other"] == found["best_hand_written"] == "squared (tuned)"
    assert judged["probability_of_improvement"] == pytest.approx(np.mean(wins))
    assert found["conclusion"] == judged["conclusion"] == "better"
    assert rows["squared (tuned)"]["tuning_frames"] == 200


def test_found_rules_are_not_tuned(tmp_path):
    this, frames = comparison(), []
    this.tunes_found, this.purpose = False, Purpose.UNSEEN
    result, _ = this.run(tmp_path, frames.append)
    assert this.learned.calls == [(32, 1)]
    assert result["learned"] == "learned (same hyperparameters)"
    assert result["against_best"]["other"] == "huber (tuned)"
    assert sum(frames) == this.frames
    other = comparison(Fake(learned_score))
    other.run(tmp_path / "other")
    assert not this.learned.keys & other.learned.keys  # seeds of its own


# --- Refusals -----------------------------------------------------------------------------------


SEEN = {"size": 3, "slip_probability": 0.1}


@pytest.mark.parametrize(
    ("tasks", "key"),
    [
        ({"GridWord": {}}, "unseen.GridWord: task.env"),
        ({"again": {"env": "GridWorld", "env_params": SEEN}}, "unseen.again"),
        ({"way": {"env": "GridWorld", "train": {"steps": 3}}}, "unseen.way: unknown key"),
        ({"../out": {"env": "GridWorld"}}, "evaluation.unseen: '../out'"),
    ],
)
def test_bad_tasks_are_refused_in_one_line(tasks, key):
    with pytest.raises(ConfigError) as caught:
        study_of(**tasks)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_omitted_task_settings_have_their_defaults():
    """The same task, written in another way."""
    with pytest.raises(ConfigError, match="evolution sees this task"):
        study_of(
            TINY.replace("{size: 3, slip_probability: 0.1}", "{}"),
            again={"env": "GridWorld", "env_params": {"observations": "index"}},
        )


# --- A whole run --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolving.evolve(tmp_path_factory.mktemp("unseen"), TINY)


def read_unseen(run):
    return json.loads((run / "evaluation.json").read_text())["unseen"]


@pytest.mark.long
def test_a_run_ends_with_a_verdict_on_unseen_tasks(evolved):
    found = read_unseen(evolved)
    assert list(found["tasks"]) == ["GridWorld", "corridor"]
    for result in found["tasks"].values():
        rows = {row["name"]: row for row in result["variants"]}
        assert rows["learned (same hyperparameters)"]["tuning_frames"] == 0
        assert "learned (tuned)" not in rows
        assert rows["squared (tuned)"]["tuning_frames"] > 0
        assert all(len(row["scores"]) == 16 for row in rows.values())
    frames = [each["frames_per_agent"] for each in found["tasks"].values()]
    assert frames == [200, 400]
    assert len(list((evolved / "figures").glob("unseen_*.png"))) == 2


@pytest.mark.long
def test_a_task_that_is_finished_is_kept(evolved, tmp_path):
    """A stop after the first task; then the first one is not trained again."""
    from metaevo.parts.resolve import load

    study, (_, found) = study_of(), load(evolved)
    first = tmp_path / "unseen" / "GridWorld.json"

    def stop():
        if first.exists():
            raise StopRequestedError

    arguments = {"evolution_frames": 0, "check_stop": stop}
    with pytest.raises(StopRequestedError):
        unseen.judge(study.unseen, {"learned": found}, tmp_path, **arguments)
    kept = first.read_bytes()
    written = first.stat().st_mtime_ns
    arguments["check_stop"] = lambda: None
    whole = unseen.judge(study.unseen, {"learned": found}, tmp_path, **arguments)
    assert first.stat().st_mtime_ns == written
    first.write_text(first.read_text().replace('"scores": [', '"scores": [true, ', 1))
    with pytest.warns(UserWarning, match=r"measuring again: .*GridWorld.json"):
        again = unseen.judge(study.unseen, {"learned": found}, tmp_path, **arguments)
    assert first.read_bytes() == kept
    assert json.dumps(again) == json.dumps(whole)


@pytest.mark.parametrize(
    ("conclusion", "interval", "carried"),
    [
        ("better", [0.01, 0.3], "better"),
        ("undecided", [-0.09, 0.3], "not worse"),
        ("undecided", [-0.11, 0.3], "undecided"),
        ("worse", [-0.05, -0.01], "worse"),
    ],
)
def test_a_rule_is_not_worse_if_a_loss_of_a_tenth_is_excluded(conclusion, interval, carried):
    judged = {"conclusion": conclusion, "difference_interval": interval}
    assert unseen.carried(judged) == carried


def test_the_table_and_the_verdict_of_unseen_tasks_agree(results):
    found = unseen.aggregate(results)
    found["against_best"] |= {"conclusion": "undecided", "difference_interval": [-0.09, 0.3]}
    shown = by_task(found, "Unseen tasks", is_unseen=True)
    assert shown.rows[-1][-1].startswith("not worse: ")
    assert verdict.unseen_banner(found).word == "NOT WORSE ON 2 UNSEEN TASKS"
    seen = by_task(found, "Tasks of the evolution", is_unseen=False)
    assert seen.rows[-1][-1].startswith("undecided: ")


@pytest.mark.long
def test_a_run_is_evaluated_on_other_unseen_tasks(evolved, tmp_path):
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text("small: {env: GridWorld, env_params: {size: 2}}\n")
    argv = ["--run-dir", str(evolved), "--unseen", str(tasks), "--evaluation.seeds", "8"]
    assert evaluate(argv, description="") == 0
    place = evolved / "transfer" / "unseen"
    assert list(read_unseen(place)["tasks"]) == ["small"]
    assert (place / "report.html").exists()
    assert load_yaml(evolved / "config.yaml")["config"]["evaluation"]["unseen"].keys() == {
        "GridWorld",
        "corridor",
    }


# --- On another task ----------------------------------------------------------------------------


@pytest.mark.long
def test_a_loss_for_q_learning_is_compared(evolved):
    result = json.loads((evolved / "evaluation.json").read_text())
    functions = {row["function"] for row in result["variants"]}  # clipping makes no difference
    assert functions == {"learned", "squared", "huber", "sloped_squared"}
    assert result["curves"] == "reward per step"
    assert (evolved / "report.html").is_file()


@pytest.mark.long
def test_on_another_grid_by_a_smaller_comparison(evolved, monkeypatch):
    monkeypatch.setitem(evaluation.QUICK, "seeds", 4)
    argv = ["--run-dir", evolved, "--name", "wide", "--task.env_params.size", "[2,4]"]
    argv += ["--hyperparams.gamma", "0.9"]
    assert evaluate([*map(str, argv), "--comparison", "quick"], description="") == 0
    there = evolved / "transfer" / "wide"
    result = json.loads((there / "evaluation.json").read_text())
    assert len(result["variants"]) == 6
    assert {row["seeds"] for row in result["variants"]} == {4}
    settings = load_yaml(there / "config.yaml")["config"]
    assert settings["task"]["env_params"] == {"size": [2, 4], "slip_probability": 0.1}
    assert settings["hyperparams"]["gamma"] == 0.9
    assert (there / "report.html").is_file()


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
    assert text in refused(evaluate, ["--run-dir", str(evolved), *line.split()], description="")
