"""Tasks and directions, groups of seeds, and scores and middles of curves."""

import jax
import numpy as np
import pytest

from metaevo.comparison import curves
from metaevo.comparison.curves import RunCurve
from metaevo.comparison.grouping import group
from metaevo.comparison.seed_run import SeedRun, direction
from metaevo.config import ConfigError
from metaevo.parts import learners
from metaevo.statistics import iqm
from purerl import dqn, envs, ppo, q_learning
from purerl.metrics import BETTER


def curve(x=(), y=(), **config) -> RunCurve:
    points = np.array(x, float), np.array(y, float)
    seed = SeedRun("r", "0", config, {"steps": points[0]}, {"m": points[1]}, "m")
    return RunCurve(seed, *curves.points_of(seed, "m", "steps"), 0.0)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ppo", ppo.Config(total_timesteps=64, num_envs=2, num_steps=8, num_minibatches=1)),
        ("dqn", dqn.Config(total_timesteps=20_000, num_envs=2, num_steps=10)),
        ("q_learning", q_learning.Config(total_timesteps=64, num_steps=8)),
    ],
)
def test_all_metrics_of_the_learners_are_declared(name, config):
    entry = learners.find(name)
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


def test_a_problem_with_other_fields_is_another_task():
    game = {"problem": "games.py:Game"}
    configs = [
        {**game, "payoffs": [[-1, -3], [0, -2]]},
        {**game, "payoffs": [[0, -1], [1, -100]]},
        {"problem": "games.py:Talk", "payoffs": [[-1, -3], [0, -2]]},
        {"task.env": "CartPole-v1"},
    ]
    tasks = [curve(**config).seed.task for config in configs]
    assert len(set(tasks)) == 4
    other = curve(**configs[1], **{"strategy.sigma": 1.0}).seed
    assert other.task == tasks[1]
    assert list(other.settings) == ["strategy.sigma"]


def test_groups_by_a_key_pool_the_others_and_are_ordered_as_numbers():
    found = [curve(a=a, b=b) for a in (10, 9) for b in ("x", "y")] + [curve(b="x")]

    def sizes(members, by):
        return {label: len(own) for label, own in group(members, by).items()}

    assert list(sizes(found, ["a"]).items()) == [("a=9", 2), ("a=10", 2), ("a=(not set)", 1)]
    assert list(sizes(found[:4], ["b", "a"])) == ["b=x, a=9", "b=x, a=10", "b=y, a=9", "b=y, a=10"]
    same = [
        curve(**{"lr": 1.0, "run.wandb": "offline", "run.seed": 1, "n": 1e-3}),
        curve(**{"lr": 1, "run.wandb": "disabled", "run.seed": 2, "n": 0.001}),
    ]
    assert len(group(same, None)) == 1  # bookkeeping and the format of numbers make no difference


def test_long_labels_leave_out_settings_that_change_with_another():
    found = [
        curve(learner=learner, e=e, **{f"h.setting_number_{i}": learner for i in range(9)})
        for learner in ("ppo", "dqn")
        for e in (1, 2)
    ]
    assert list(group(found, None)) == [
        f"e={e}, learner={x}" for e in (1, 2) for x in ("dqn", "ppo")
    ]
    texts = ["x" * 50 + middle + "y" * 50 for middle in "ab"]
    first, second = group([curve(text=text) for text in texts], None)
    assert second == f"{first} (2)"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("lerning_rate", "did you mean learning_rate"),
        ("size", "it may be env.size or net.size"),
        ("qqq", "the runs differ in: hyperparams.learning_rate"),
    ],
)
def test_unknown_keys_are_refused(key, text):
    found = [
        curve(**{"hyperparams.learning_rate": rate, "net.size": 1, "env.size": 2})
        for rate in (1, 2)
    ]
    with pytest.raises(ConfigError, match=text):
        group(found, [key])
    assert len(group(found, ["learning_rate"])) == 2  # the last part is enough


@pytest.mark.parametrize(
    ("end", "how", "expected"),
    [
        (100, "final", 7),  # beyond 90
        (40, "final", 50),
        (30, "final", 10),  # the last one that is known
        (100, "best", 50),
        (20, "best", 10),
        (40, "area", 650 / 30),  # trapezoids: 10 x 5 + 20 x 30 over a width of 30
        (5, "final", np.nan),
    ],
)
def test_scores_of_a_curve_by_hand(end, how, expected):
    x, y = np.array([10.0, 20, 40, 91, 100]), np.array([0.0, 10, 50, 6, 8])
    assert curves.score(x, y, end, how) == pytest.approx(expected, nan_ok=True)


def test_the_middle_is_the_iqm_where_all_seeds_are_known():
    found = [
        curve([0, 10, 20], [0, 10, 20]),
        curve([5, 10, 15], [1, np.nan, 3]),  # missing values are bridged, not zero
        curve(),  # without a value
    ]
    points = curves.grid(found)
    assert points.tolist() == [0, 5, 10, 15, 20]
    part = curves.middle(found, points)
    assert part.x.tolist() == [5, 10, 15]
    assert part.iqm.tolist() == [3, 6, 9]
    assert len(curves.grid([curve(np.linspace(0, 1, 1000), np.zeros(1000))])) == curves.POINTS
    values = np.random.default_rng(0).normal(size=(8, 5)) + np.arange(5)
    part = curves.middle([curve(range(5), row) for row in values], np.arange(5.0))
    np.testing.assert_allclose(part.iqm, iqm(values, axis=0))
    assert np.all((part.low <= part.iqm) & (part.iqm <= part.high))
