"""Directions of metrics, and seeds without a score."""

import jax
import numpy as np
import pytest

from metaevo import compare_runs
from metaevo.comparison.seed_run import direction
from purerl import dqn, envs, ppo, q_learning
from purerl.learners import LEARNERS
from purerl.metrics import BETTER
from tests.metaevo.comparison.conftest import write_records


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ppo", ppo.Config(total_timesteps=64, num_envs=2, num_steps=8, num_minibatches=1)),
        ("dqn", dqn.Config(total_timesteps=20_000, num_envs=2, num_steps=10)),
        ("q_learning", q_learning.Config(total_timesteps=64, num_steps=8)),
    ],
)
def test_all_metrics_of_the_learners_are_declared(name, config):
    entry = LEARNERS[name]
    env, env_params = envs.make("GridWorld", observations=entry.observations)
    learner, others = entry.make(config, env), (entry.hyperparams(), None, env_params)
    state = jax.eval_shape(learner.init, jax.random.key(0), *others)
    *_, metrics = jax.eval_shape(learner.update, state, *others)
    assert set(metrics) <= set(BETTER)


def test_directions():
    higher = ("CartPole-v1/mean_return", "charts/episodic_return", "rollout/ep_rew_mean",
              "fitness_of_mean", "evaluation:learned")  # fmt: skip
    assert {direction(metric) for metric in higher} == {"higher"}
    assert direction("value_loss") == "lower"
    assert {direction(m) for m in ("entropy", "policy_loss", "test/accuracy")} == {None}


def training(path, *, rate, seed, values, diverged=0, agents=1):
    """A training with some metrics; None where the parameters of its agent are no numbers."""
    config = {
        "seeds": agents, "task": {"env": "CartPole-v1"}, "train": {"total_timesteps": 400},
        "hyperparams": {"learning_rate": rate}, "run": {"seed": seed},
    }  # fmt: skip
    first = {"frames": 100, "diverged": 0, **(dict.fromkeys(values, 0.0) if diverged else values)}
    later = [{"frames": 100 * i, "diverged": diverged, **values} for i in (2, 3, 4)]
    return write_records(path, config, "update", [first, *later])


@pytest.fixture
def trainings(tmp_path):
    """Of one rate ten that end at 5 to 6, of another two at 1 and eight that diverged."""
    paths = []
    for seed in range(10):
        values = dict.fromkeys(("value_loss", "entropy"), 5 + seed / 10)
        paths.append(training(tmp_path / f"a{seed}", rate=0.1, seed=seed, values=values))
        lost = seed >= 2
        values = dict.fromkeys(("value_loss", "entropy"), None if lost else 1 + seed / 10)
        paths.append(training(tmp_path / f"b{seed}", rate=0.5, seed=seed, values=values,
                              diverged=int(lost)))  # fmt: skip
    return paths


def test_seeds_that_diverged_do_not_win_where_low_values_are_better(trainings):
    result = compare_runs(trainings, metric="value_loss")
    assert [row.label for row in result.groups] == ["learning_rate=0.1", "learning_rate=0.5"]
    assert result.groups[1].comparison.conclusion == "undecided"
    diverged = [result.scores[seed] for seed in result.groups[1].seeds]
    assert diverged == [1.0, 1.1] + [pytest.approx(5.9)] * 8


def test_missing_values_without_a_direction_are_undecided(trainings):
    result = compare_runs(trainings, metric="entropy")
    assert result.groups[1].comparison.conclusion == "undecided"
    assert {row.label: len(row.seeds) for row in result.groups} == {
        "learning_rate=0.1": 10, "learning_rate=0.5": 2,
    }  # fmt: skip
    assert any("entropy" in note for note in result.notes)


def test_a_lower_loss_is_better(tmp_path):
    paths = [
        training(tmp_path / f"{rate}-{seed}", rate=rate, seed=seed,
                 values={"value_loss": level + seed / 100})
        for rate, level in [(0.1, 5.0), (0.5, 2.0)] for seed in range(6)
    ]  # fmt: skip
    result = compare_runs(paths, metric="value_loss")
    best, base = result.groups
    assert (best.label, base.label) == ("learning_rate=0.5", result.baseline)
    assert best.comparison.conclusion == "better"
    assert best.comparison.difference == pytest.approx(-3, abs=0.01)
    assert best.comparison.probability_of_improvement == 1.0
    assert best.comparison.difference_interval[1] < 0
    assert base.iqm.value == pytest.approx(5.025)
    best = compare_runs(paths, metric="value_loss", score="best")
    assert best.groups[0].iqm.value == pytest.approx(2.025)


def test_a_mean_over_the_agents_that_survived_counts_as_missing(tmp_path):
    for name, rate, diverged in (("a", 0.1, 0), ("b", 0.5, 8)):
        path = tmp_path / name
        training(path, rate=rate, seed=0, values={"value_loss": 5.0 if rate == 0.1 else 1.0},
                 diverged=diverged, agents=10)  # fmt: skip
    result = compare_runs(tmp_path, metric="value_loss")
    assert [row.iqm.value for row in result.groups] == [5.0, 5.0]


def evolution(path, sigma, held_out, of_mean):
    """An evolution that was validated at its beginning only, and then compared."""
    config = {"strategy": {"sigma": sigma}, "evolution": {"generations": 3}, "run": {"seed": 0}}
    records = [
        {"fitness_mean": 1.0, "fitness_of_mean": of_mean if index == 0 else None}
        for index in range(3)
    ]
    scores = held_out and {"learned": held_out, "squared": [0] * 8}
    config |= {"task": {"env": "CartPole-v1"}}
    return write_records(path, config, "generation", records, scores)


def test_evolutions_are_judged_by_their_held_out_scores(tmp_path):
    """Whatever their validations were, of which the last may be long ago."""
    low, high = np.linspace(10, 11, 8).tolist(), np.linspace(20, 21, 8).tolist()
    paths = [evolution(tmp_path / "a", 0.1, low, 99.0), evolution(tmp_path / "b", 0.5, high, 1.0)]
    result = compare_runs(paths)
    best = result.groups[0]
    assert (best.label, best.comparison.conclusion) == ("sigma=0.5", "better")
    assert best.comparison.difference == pytest.approx(10)
    assert [len(row.seeds) for row in result.groups] == [8, 8]
    paths.append(evolution(tmp_path / "c", 0.9, None, 50.0))
    result = compare_runs(paths)
    assert result.selection.metric == "fitness_of_mean"
