import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs
from purerl.envs import grid
from purerl.envs.grid_world import EnvState
from purerl.parts.own_task import sampler

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


def test_cells_that_reach_the_goal():
    is_wall = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]], bool)
    expected = [[1, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(grid.reaching(is_wall, (0, 2)), expected)


TASKS = 300
EXTREMES = {
    "slip_probability": 0.4,
    "step_reward": -0.2,
    "goal_reward": 3.0,
    "max_steps_in_episode": 60,
}


@pytest.fixture(scope="module")
def tasks():
    env, params = envs.make(
        "GridWorlds", observations="raw", size=5, smallest_size=2, walls=0.5, **EXTREMES
    )
    keys = jax.random.split(KEY, TASKS)
    drawn = jax.jit(jax.vmap(env.sample_params, in_axes=(0, None)))(keys, params)
    drawn = jax.device_get(drawn)
    return env, [jax.tree.map(lambda leaf, index=i: leaf[index], drawn) for i in range(TASKS)]


def test_tasks(tasks):
    _, drawn = tasks
    sizes, numbers = set(), []
    for params in drawn:
        layout = params.layout
        free = ~layout.is_wall.reshape(5, 5)
        reaching = np.flatnonzero(grid.reaching(~free, divmod(int(layout.goal), 5)))
        begins = np.sort(layout.cells[: layout.num_starts])
        np.testing.assert_array_equal(begins, np.setdiff1d(reaching, layout.goal))
        assert free.ravel()[layout.goal]
        assert len(begins) >= 1
        np.testing.assert_array_equal(np.sort(layout.cells), np.arange(25))
        sizes.add(
            (1 + np.flatnonzero(free.any(axis=1)).max(), 1 + np.flatnonzero(free.any(0)).max())
        )
        numbers.append([getattr(params, name) for name in EXTREMES])
    assert sizes >= {(rows, cols) for rows in range(2, 6) for cols in range(2, 6)}
    assert max(map(max, sizes)) == 5
    slip, step, goal, horizon = np.array(numbers, np.float64).T
    for values, low, high in ((slip, 0, 0.4), (-step, 0, 0.2), (goal, 1.5, 3)):
        assert low <= values.min() < values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, rel=0.1)
    assert 12 <= horizon.min() < horizon.max() <= 60
    assert np.median(horizon) == pytest.approx((12 * 60) ** 0.5, rel=0.1)
    walls = np.mean([params.layout.is_wall.mean() for params in drawn])
    assert 0.3 < walls < 0.8


def test_steps_match_grid_world(tasks):
    env, drawn = tasks
    params = max(drawn, key=lambda each: each.layout.num_starts * each.layout.is_wall.mean())
    params = params.replace(slip_probability=0.0)
    layout = params.layout
    same, its_params = envs.make(
        "GridWorld",
        observations="raw",
        size=5,
        start=divmod(int(layout.cells[0]), 5),
        goal=divmod(int(layout.goal), 5),
        walls=np.argwhere(layout.is_wall.reshape(5, 5)).tolist(),
        step_reward=float(params.step_reward),
        goal_reward=float(params.goal_reward),
        max_steps_in_episode=int(params.max_steps_in_episode),
    )
    cells = np.repeat(layout.cells[: layout.num_starts], 4)
    actions = np.tile(np.arange(4), layout.num_starts)

    def steps(env, params):
        def step(cell, action):
            state = EnvState(cell=cell, time=params.max_steps_in_episode - 1)
            return env.step(KEY, state, action, params)[2:]

        return jax.jit(jax.vmap(step))(cells, actions)

    found, expected = steps(env, params), steps(same, its_params)
    assert expected[1].any()
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_array_equal(a, b)

    reset = jax.jit(jax.vmap(lambda key: env.reset(key, params)[0]))
    cells = reset(jax.random.split(KEY, 500))
    assert set(np.unique(cells)) == set(layout.cells[: layout.num_starts])


def test_other_environments_are_no_distributions():
    assert sampler(envs.make("GridWorld")[0]) is None
    assert sampler(envs.make("CartPole-v1")[0]) is None
    assert sampler(envs.make("GridWorlds")[0]) is not None
