"""The picture of a table: where its states lie, which way its arrows point."""

import numpy as np
import pytest

from metaevo.reports.value_maps import grid_map
from purerl import envs


def raw(name, **overrides):
    return envs.make(name, observations="raw", **overrides)[0]


def test_states_lie_row_by_row():
    assert grid_map(raw("GridWorld", size=[2, 5]), 10).shape == (2, 5)
    assert grid_map(raw("FrozenLake-misc"), 16).shape == (4, 4)
    assert grid_map(envs.make("DeepSea-bsuite", observations="index", size=6)[0], 36).moves == ()
    assert grid_map(raw("CartPole-v1"), 7) is None


SLIPPERY = [
    pytest.param(name, marks=pytest.mark.long) for name in ("FrozenLake-misc", "FourRooms-misc")
]


@pytest.mark.parametrize("name", ["GridWorld", *SLIPPERY])
def test_moves_match_the_environment(name):
    """Random steps away from walls change the state's number as the arrow says."""
    import jax

    env, params = envs.make(name, observations="index")
    cells = grid_map(env, env.observation_space(params).n)
    assert len(cells.moves) == env.num_actions
    rng, seen = np.random.default_rng(0), set()
    step = jax.jit(env.step)
    key = jax.random.key(0)
    obs, state = env.reset(key, params)
    for index in range(150):
        action = int(rng.integers(env.num_actions))
        after, state, *_, info = step(jax.random.fold_in(key, index), state, action, params)
        moved = int(info["final_observation"]) - int(obs)
        down, right = cells.moves[action]
        if moved == down * cells.shape[1] + right:
            seen.add(action)
        elif name == "GridWorld":  # the others slip
            assert moved == 0
        obs = after
    assert seen == set(range(env.num_actions))
