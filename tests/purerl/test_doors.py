"""Doors: by hand, and against the NumPy reference transition by transition."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl import envs
from purerl.envs.doors import AGENT, EMPTY, GOAL, WALL, Doors, EnvState
from purerl.envs.doors_gym import DoorsGym

KEY = jax.random.key(0)
STAY, RIGHT, DOWN, LEFT, UP = range(5)
PICTURE = {EMPTY: ".", AGENT: "A", WALL: "#", GOAL: "G"}


def make(**overrides):
    return envs.make("Doors", observations="raw", **overrides)


def state_at(size, agent, goal, time=0):
    agent, goal = (jnp.int32(row * size + col) for row, col in (agent, goal))
    return EnvState(time=jnp.int32(time), agent=agent, goal=goal)


def drawn(obs):
    obs = np.asarray(obs)
    np.testing.assert_array_equal(obs.sum(axis=-1), 1.0)  # one-hot
    return ["".join(PICTURE[code] for code in row) for row in obs.argmax(axis=-1).tolist()]


@pytest.mark.smoke
def test_an_episode_by_hand():
    env, params = make(size=5, doors=[1, 3], max_steps_in_episode=6)
    state = state_at(5, (1, 1), (0, 3))
    pictures = [
        (RIGHT, 0, ["..#G.", "..A..", "..#..", ".....", "..#.."]),
        (UP, 0, ["..#G.", "..A..", "..#..", ".....", "..#.."]),  # a wall
        (RIGHT, 0, ["..#G.", "...A.", "..#..", ".....", "..#.."]),
        (UP, 1, ["..#A.", ".....", "..#..", ".....", "..#.."]),
        (STAY, 1, ["..#A.", ".....", "..#..", ".....", "..#.."]),
    ]
    for time, (action, expected, picture) in enumerate(pictures, start=1):
        obs, state, reward, terminated, truncated, info = env.step(KEY, state, action, params)
        assert drawn(obs) == drawn(info["final_observation"]) == picture
        assert (reward, terminated, truncated, state.time) == (expected, False, False, time)
    obs, state, reward, terminated, truncated, info = env.step(KEY, state, LEFT, params)
    assert (reward, terminated, truncated) == (1, False, True)  # the wall again: still there
    assert drawn(info["final_observation"]) == pictures[-1][2]
    assert (reward.dtype, terminated.dtype, obs.dtype) == (jnp.float32, bool, jnp.float32)
    # the next episode is what a reset gives
    expected_obs, expected_state = env.reset(KEY, params)
    np.testing.assert_array_equal(obs, expected_obs)
    jax.tree.map(np.testing.assert_array_equal, state, expected_state)
    assert state.time == 0
    assert "".join(drawn(obs)).count("A") == "".join(drawn(obs)).count("G") == 1


def test_the_default_layout():
    expected = [".......#......."] * 15
    for row in (2, 7, 12):
        expected[row] = "." * 15
    for obs in (make()[0].reset(KEY)[0], DoorsGym().reset(seed=0)[0]):
        rows = drawn(obs)
        assert [row.replace("A", ".").replace("G", ".") for row in rows] == expected


@pytest.mark.parametrize("goal", [None, (2, 4)])
def test_resets_are_uniform_over_distinct_free_cells(goal):
    env, params = make(size=5, doors=[2], goal=goal)
    count = 40_000
    reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    _, state = reset(jax.random.split(KEY, count), params)
    joint = np.zeros((25, 25))
    np.add.at(joint, (np.asarray(state.agent), np.asarray(state.goal)), 1 / count)
    free = np.flatnonzero(~env.is_wall)
    expected = np.zeros((25, 25))
    expected[np.ix_(free, free if goal is None else [14])] = 1.0
    np.fill_diagonal(expected, 0.0)
    expected /= expected.sum()
    assert np.count_nonzero(expected) == (21 * 20 if goal is None else 20)
    bound = 5 * np.sqrt(expected.max() / count)
    np.testing.assert_allclose(joint, expected, atol=bound)
    np.testing.assert_array_equal(joint[expected == 0], 0)


class Layout(NamedTuple):
    size: int
    doors: tuple[int, ...]


def compare(layout, cells, actions, limit):
    """Both environments from the same states; `cells` int [n, 2] index the free ones."""
    ours = Doors(*layout)
    reference = DoorsGym(*layout, max_steps_in_episode=limit)
    free = np.flatnonzero(~ours.is_wall)
    assert [divmod(int(cell), layout.size) for cell in free] == reference.free_cells
    agent, goal = free[cells % len(free)].T.astype(np.int32)
    times = np.arange(len(cells), dtype=np.int32) % limit
    params = ours.default_params.replace(max_steps_in_episode=limit)
    # Without jit for the small batches of hypothesis: every layout would be compiled.
    step = jax.vmap(Doors.step.__wrapped__, in_axes=(None, None, 0, 0, None))
    obs, after, reward, terminated, truncated, info = step(
        ours, KEY, EnvState(time=times, agent=agent, goal=goal), actions, params
    )
    obs, final = np.asarray(obs), np.asarray(info["final_observation"])
    reward, truncated, after_time = np.asarray(reward), np.asarray(truncated), after.time
    assert not np.any(terminated)
    np.testing.assert_array_equal(after_time, np.where(truncated, 0, times + 1))
    for index, action in enumerate(actions):
        options = {
            "agent": divmod(int(agent[index]), layout.size),
            "goal": divmod(int(goal[index]), layout.size),
            "time": int(times[index]),
        }
        reference.reset(options=options)
        expected = reference.step(int(action))
        np.testing.assert_array_equal(final[index], expected[0])
        assert (reward[index], truncated[index]) == (expected[1], expected[3])
        if not truncated[index]:
            np.testing.assert_array_equal(obs[index], expected[0])


def test_transitions_match_the_reference():
    rng = np.random.default_rng(0)
    cells, actions = rng.integers(213, size=(1500, 2)), rng.integers(5, size=1500)
    cells[:300, 1] = cells[:300, 0]  # on the goal
    compare(Layout(15, (2, 7, 12)), cells, actions, limit=38)


@pytest.mark.long
@settings(max_examples=8)
@given(st.data())
def test_transitions_match_the_reference_in_any_layout(data):
    size = data.draw(st.sampled_from([3, 4, 5, 8]), "size")
    doors = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4), "doors")
    number = st.integers(0, 10_000)
    step = st.tuples(number, number, st.integers(0, 4))
    steps = st.lists(step, min_size=16, max_size=16)  # one shape: operations compile once
    cells_and_actions = np.array(data.draw(steps, "steps"))
    limit = data.draw(st.integers(1, 40), "limit")
    layout = Layout(size, tuple(doors))
    compare(layout, cells_and_actions[:, :2], cells_and_actions[:, 2], limit)


@pytest.mark.parametrize("build", [make, DoorsGym])
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"size": 4}, r"a Doors grid of size 4 is too small for its three doors: it needs 5"),
        ({"size": 6, "doors": [6]}, r"a Doors grid of size 6 is too small for a door in row 6"),
        ({"doors": []}, r"doors = .* must be a list of rows, at least one"),
        ({"goal": [0, 7]}, r"goal = \(0, 7\) is on a wall"),
    ],
)
def test_mistakes(build, overrides, message):
    with pytest.raises(ValueError, match=message):
        build(**overrides)
