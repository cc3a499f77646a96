"""Fitness against hand computation, and the meta-problem that trains agents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.parts import ValueLossNetwork
from metaevo.tasks.fitness import FitnessConfig, fitness, measures
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.scale import measure_scale
from purerl import ppo
from purerl.types import EpisodeSums, TrainResult
from tests.metaevo.toy import TINY, ppo_task

# --- Fitness ------------------------------------------------------------------------------------


def sums(episodes, returns, rewards=None):
    """Sums per update; every update has 8 steps."""
    count = len(episodes)
    rewards = returns if rewards is None else rewards
    fields = episodes, returns, [0] * count, rewards, [8] * count
    return EpisodeSums(*(jnp.asarray(field, jnp.float32) for field in fields))


def test_measures_by_hand():
    episodes = [0, 2, 0, 1, 0, 0, 3, 0, 0, 2] * 2  # twenty updates: the last tenth is two
    returns = [0, 8, 0, 6, 0, 0, 30, 0, 0, 9] * 2
    found = measures(sums(episodes, returns, rewards=[4.0] * 20))
    assert found["mean_return"] == pytest.approx(2 * 53 / 16)
    assert found["final_return"] == pytest.approx(9 / 2)
    assert found["reward_per_step"] == pytest.approx(0.5)


def test_without_finished_episodes_only_the_reward_is_known():
    found = measures(sums([0] * 5, [0] * 5, rewards=[2, 2, 2, 2, 0]))
    assert np.isnan(found["mean_return"])
    assert np.isnan(found["final_return"])
    assert found["reward_per_step"] == pytest.approx(0.2)
    assert fitness(FitnessConfig(0.0, 0.0, 10.0), found) == pytest.approx(2.0)
    assert np.isnan(fitness(FitnessConfig(1.0, 0.0, 10.0), found))


def test_final_return_falls_back_to_the_last_end():
    """An agent that balances for ever finishes nothing in its last tenth."""
    found = measures(sums([4, 0, 1, 0] + [0] * 16, [4, 0, 90, 0] + [0] * 16))
    assert found["final_return"] == 90
    found = measures(sums([4] + [0] * 19, [4] + [0] * 19))
    assert found["final_return"] == 1


# --- The meta-problem ---------------------------------------------------------------------------


def test_diverged_training_has_no_fitness():
    """The agent goes on collecting rewards: only its parameters tell."""
    train = {"total_timesteps": 100, "num_steps": 50}
    fitness = {"mean_return": 0.0, "reward_per_step": 1.0}
    part = ValueLossNetwork(hidden_sizes=(4,))
    problem = LearnerProblem("q_learning", part, ["GridWorld"], train=train, fitness=fitness)
    bad = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), problem.init(jax.random.key(0)))
    found = jax.jit(problem.evaluate)(jax.random.key(3), bad, 0)
    assert np.isnan(found.fitness)
    assert np.isfinite(found.metrics["reward_per_step"])


class Standing(ppo.PPO):
    """Training changes nothing."""

    def train(self, key, hyperparams, meta_params, env_params):
        state = self.init(key, hyperparams, meta_params, env_params)
        return TrainResult(state, sums([1] * 2, [9] * 2), {})


def test_a_reference_no_better_than_random_play_gives_no_scale():
    task = ppo_task()
    task = task._replace(learner=Standing(TINY, task.learner.env))
    given = task, ppo.Hyperparams(), FitnessConfig()
    with pytest.raises(
        ConfigError, match=r"tasks\.poles: the hand-written reference scores 9, no better"
    ):
        measure_scale("poles", *given)
    # the numbers of a quick look mean nothing
    assert measure_scale("poles", *given, quick=True) == (9, 10)
