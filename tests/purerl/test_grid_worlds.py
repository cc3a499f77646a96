import jax
import numpy as np
import pytest

from purerl import envs
from purerl.envs import grid
from purerl.envs.grid_world import EnvState
from purerl.parts.own_task import sampler

KEY = jax.random.key(0)
TASKS = 300
EXTREMES = {
    "slip_probability": 0.4,
    "step_reward": -0.2,
    "goal_reward": 3.0,
    "max_steps_in_episode": 60,
}


def make(**overrides):
    return envs.make("GridWorlds", observations="raw", **overrides)


@pytest.fixture(scope="module")
def tasks():
    env, params = make(size=5, smallest_size=2, walls=0.5, **EXTREMES)
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
        steps = grid.distances(~free, divmod(int(layout.goal), 5))
        begins = np.sort(layout.cells[: layout.num_starts])
        np.testing.assert_array_equal(begins, np.flatnonzero(np.isfinite(steps) & (steps > 0)))
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
