"""Our environments as Gymnasium's: its own checks, the same transitions, agents that play there."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from purerl import envs, ppo
from purerl.envs.doors_gym import DoorsGym
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium
from purerl.parts.policies import Categorical

KEY = jax.random.key(0)
OURS = ["purerl/GridWorld-v0", "purerl/Doors-v0", "purerl/DoorsNumPy-v0"]


@pytest.mark.smoke
@pytest.mark.parametrize("name", OURS)
def test_gymnasiums_checks(name):
    env = gymnasium.make(name)
    check_env(env.unwrapped)  # renders as well; what it warns of is an error here
    env.close()


def test_an_episode_from_its_seed_to_its_truncation():
    env = gymnasium.make("purerl/Doors-v0", max_steps_in_episode=5, size=7)
    reference = DoorsGym(size=7, max_steps_in_episode=5)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    other, _ = env.reset()  # the stream goes on
    assert not np.array_equal(first, other)
    assert other.dtype == np.float32
    place = {name: np.argwhere(other[:, :, code])[0] for name, code in (("agent", 1), ("goal", 3))}
    expected, _ = reference.reset(options=place)
    np.testing.assert_array_equal(other, expected)
    for time in range(1, 6):
        obs, reward, terminated, truncated, _ = env.step(time % 5)
        expected = reference.step(time % 5)
        np.testing.assert_array_equal(obs, expected[0])  # no reset, also not at the end
        assert (reward, terminated, truncated) == expected[1:4]
        assert truncated == (time == 5)
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]


def test_termination_and_arguments():
    env = gymnasium.make("purerl/GridWorld-v0", size=2, walls=[[0, 1]], goal_reward=3.0)
    assert env.reset(seed=0)[0] == 0
    assert env.step(1)[:4] == (2, 0.0, False, False)
    assert env.step(np.int64(0))[:4] == (3, 3.0, True, False)
    env = gymnasium.make("purerl/GridWorld-v0", observations="auto")
    assert env.observation_space.shape == (64,)
    np.testing.assert_array_equal(env.reset()[0], np.eye(64)[0])


class Way:
    """A learner that knows the way to the goal of an open grid from what it sees of it."""

    def __init__(self, env, right, down):
        self.env = env
        self.right, self.down = right, down

    def action_distribution(self, policy, obs, memory=None, legal=None):
        col = obs.reshape(8, 8).sum(axis=0).argmax()
        logits = 10.0 * jax.nn.one_hot(jax.numpy.where(col < 7, self.right, self.down), 4)
        return Categorical(logits), None


def test_agents_play_in_gymnasium():
    env, _ = envs.make("GridWorld")
    returns = evaluate_in_gymnasium(Way(env, 0, 1), (), "purerl/GridWorld-v0", num_episodes=2)
    np.testing.assert_array_equal(returns, 1.0)  # seven to the right and seven down

    env, env_params = envs.make("Doors")
    learner = ppo.PPO(ppo.Config(hidden_sizes=(4,)), env)
    state = jax.jit(learner.init)(KEY, ppo.Hyperparams(), None, env_params)
    policy = learner.policy(state)
    returns = evaluate_in_gymnasium(
        learner, policy, "purerl/DoorsNumPy-v0", num_episodes=2, greedy=False
    )
    assert returns.shape == (2,)
    assert (returns >= 0).all()
    assert (returns <= 38).all()
