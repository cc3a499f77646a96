import jax
import numpy as np
import pytest

from experiments.reproductions.doors import AGENT, EMPTY, GOAL, SIZE, WALL, WALLS, Doors
from metaevo.config import load_yaml
from purerl.envs.grid_world import EnvState
from tests.metaevo.evolving import objective_of

KEY = jax.random.key(0)
STAY, RIGHT, DOWN, LEFT, UP = range(5)
IS_WALL = np.zeros((SIZE, SIZE), bool)
IS_WALL[tuple(np.transpose(WALLS))] = True
FREE = np.flatnonzero(~IS_WALL)


def test_transitions_match_the_rules():
    rng, count = np.random.default_rng(0), 1500
    agent = FREE[rng.integers(len(FREE), size=count)].astype(np.int32)
    action, time = rng.integers(5, size=count), np.arange(count, dtype=np.int32) % 38
    env, params, goal = Doors((4, 2)), Doors.default_params, 4 * SIZE + 2
    agent[:300] = rng.choice([goal, goal - 1, goal + 1], size=300)
    step = jax.jit(jax.vmap(env.step, in_axes=(None, 0, 0, None)))
    states = EnvState(time=time, cell=agent)
    obs, after, reward, terminated, truncated, info = step(KEY, states, action, params)
    assert not np.any(terminated)
    np.testing.assert_array_equal(truncated, time == 37)
    np.testing.assert_array_equal(after.time, np.where(truncated, 0, time + 1))
    final = np.asarray(info["final_observation"])
    going = ~np.asarray(truncated)
    np.testing.assert_array_equal(obs[going], final[going])
    # the next episode is what a reset gives
    expected_obs, expected_state = env.reset(jax.random.split(KEY)[1], params)
    first = np.flatnonzero(truncated)[0]
    jax.tree.map(
        lambda found, one: np.testing.assert_array_equal(found[first], one),
        (obs, after),
        (expected_obs, expected_state),
    )
    np.testing.assert_array_equal(final.sum(axis=-1), 1.0)  # one-hot
    final = final.argmax(axis=-1)
    for index in range(count):
        row, col = divmod(int(agent[index]), SIZE)
        down, right = {STAY: (0, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1), UP: (-1, 0)}[
            int(action[index])
        ]
        to_row, to_col = row + down, col + right
        inside = 0 <= to_row < SIZE and 0 <= to_col < SIZE
        if inside and (to_col != 7 or to_row in (2, 7, 12)):
            row, col = to_row, to_col
        expected = np.where(IS_WALL, WALL, EMPTY)
        expected[4, 2] = GOAL
        expected[row, col] = AGENT
        np.testing.assert_array_equal(final[index], expected)
        assert reward[index] == (row * SIZE + col == goal)


def test_the_goal_is_a_free_cell():
    with pytest.raises(ValueError, match=r"goal = \(0, 7\) is on a wall"):
        Doors((0, 7))


def test_the_published_sweep_fits_together():
    raw = load_yaml("experiments/reproductions/doors_sweep.yaml")
    assert objective_of(raw).start().frames == 108_000
