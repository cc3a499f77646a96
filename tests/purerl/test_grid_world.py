import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs
from purerl.envs import grid
from purerl.envs.grid_world import EnvState

KEY = jax.random.key(0)
RIGHT, DOWN, LEFT, UP = range(4)


def make(**overrides):
    return envs.make("GridWorld", observations="raw", **overrides)


def state_at(cell, time=0):
    return EnvState(cell=jnp.int32(cell), time=jnp.int32(time))


@pytest.mark.smoke
def test_an_episode_by_hand():
    # . # .    cells 0 1 2
    # . . G          3 4 5
    env, params = make(size=[2, 3], walls=[[0, 1]], goal=[1, 2], step_reward=-0.5, goal_reward=2.0)
    obs, state = env.reset(KEY, params)
    assert obs == state.cell == 0
    assert obs.dtype == jnp.int32
    expected = [(UP, 0), (LEFT, 0), (RIGHT, 0), (DOWN, 3), (RIGHT, 4), (UP, 4), (DOWN, 4)]
    for time, (action, cell) in enumerate(expected, start=1):
        obs, state, reward, terminated, truncated, info = env.step(KEY, state, action, params)
        assert (obs, state.cell, state.time, reward) == (cell, cell, time, -0.5)
        assert not terminated
        assert not truncated
        assert info["final_observation"] == cell
    obs, state, reward, terminated, truncated, info = env.step(KEY, state, RIGHT, params)
    assert (reward, terminated, truncated) == (2.0, True, False)
    assert (obs, state.cell, state.time) == (0, 0, 0)  # the next episode
    assert info["final_observation"] == 5
    assert (reward.dtype, terminated.dtype, obs.dtype) == (jnp.float32, bool, jnp.int32)


def test_truncation():
    env, params = make(size=3, max_steps_in_episode=2)
    step = env.step(KEY, state_at(0, 0), RIGHT, params)
    assert (step[0], bool(step[4])) == (1, False)
    obs, state, reward, terminated, truncated, info = env.step(KEY, step[1], RIGHT, params)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (obs, state.time, info["final_observation"]) == (0, 0, 2)
    *_, terminated, truncated, _ = env.step(KEY, state_at(5, 1), DOWN, params)
    assert terminated
    assert truncated


@pytest.mark.parametrize("start", ["random", (0, 0)])
def test_slip_frequencies(start):
    env, params = make(size=5, slip_probability=0.4, start=start)
    count = 40_000
    keys = jax.random.split(KEY, count)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, None, None, None)))
    *_, info = step(keys, state_at(12), UP, params)
    found = [np.mean(np.asarray(info["final_observation"]) == cell) for cell in (13, 17, 11, 7)]
    np.testing.assert_allclose(found, [0.1, 0.1, 0.1, 0.7], atol=5 * 0.5 / np.sqrt(count))
    firm, firm_params = make(size=5, slippery=False, slip_probability=1.0, start=start)
    for sure, its in ((env, params.replace(slip_probability=0.0)), (firm, firm_params)):
        step = jax.jit(jax.vmap(sure.step, in_axes=(0, None, None, None)))
        *_, info = step(keys[:100], state_at(12), UP, its)
        np.testing.assert_array_equal(info["final_observation"], 7)


def test_random_starts_are_uniform_and_do_not_depend_on_the_slip():
    env, params = make(size=(2, 3), walls=((0, 1),), start="random", slip_probability=0.5)
    count = 40_000
    keys = jax.random.split(KEY, count)
    bound = 5 * 0.5 / np.sqrt(count)
    obs, _ = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, params)
    shares = np.bincount(obs, minlength=6) / count
    np.testing.assert_allclose(shares, [0.25, 0, 0.25, 0.25, 0.25, 0], atol=bound)
    params = params.replace(max_steps_in_episode=1)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, None, None, None)))
    obs, *_, info = step(keys, state_at(4), LEFT, params)
    joint = np.zeros((6, 6))
    np.add.at(joint, (np.asarray(info["final_observation"]), np.asarray(obs)), 1 / count)
    ends = np.array([0, 0, 0, 5, 2, 1]) / 8  # up and down both lead nowhere
    np.testing.assert_allclose(joint, np.outer(ends, [0.25, 0, 0.25, 0.25, 0.25, 0]), atol=bound)


def test_distances():
    is_wall = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]], bool)
    inf = np.inf
    expected = [[6, inf, 0], [5, inf, 1], [4, 3, 2], [inf] * 3, [inf] * 3]
    np.testing.assert_array_equal(grid.distances(is_wall, (0, 2)), expected)
