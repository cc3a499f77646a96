"""The picture of a table: where its states lie, which way its arrows point."""

import jax
import numpy as np
import pytest

from metaevo.reports.value_maps import grid_map
from purerl import envs


def test_states_lie_row_by_row():
    raw = {"observations": "raw"}
    assert grid_map(envs.make("GridWorld", size=[2, 5], **raw)[0], 10).shape == (2, 5)
    assert grid_map(envs.make("FrozenLake-misc", **raw)[0], 16).shape == (4, 4)
    assert grid_map(envs.make("DeepSea-bsuite", observations="index", size=6)[0], 36).moves == ()
    assert grid_map(envs.make("CartPole-v1", **raw)[0], 7) is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["GridWorld", "FrozenLake-misc", "FourRooms-misc"])
def test_moves_match_the_environment(name):
    """Random steps away from walls change the state's number as the arrow says, unless it slips."""
    env, params = envs.make(name, observations="index")
    cells = grid_map(env, env.observation_space(params).n)
    step, key, seen = jax.jit(env.step), jax.random.key(0), set()
    obs, state = env.reset(key, params)
    for index, action in enumerate(np.random.default_rng(0).integers(4, size=150)):
        after, state, *_, info = step(jax.random.fold_in(key, index), state, action, params)
        down, right = cells.moves[action]
        if int(info["final_observation"]) - int(obs) == down * cells.shape[1] + right:
            seen.add(int(action))
        obs = after
    assert seen == set(range(env.num_actions))
