"""purerl's environments in Gymnasium: its own checks, and the same transitions."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from purerl.envs.doors_gym import DoorsGym

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
