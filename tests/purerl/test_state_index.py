import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs

KEY = jax.random.key(0)


def test_deep_sea_counts_cells_row_by_row():
    env, params = envs.make("DeepSea-bsuite", observations="index", size=5)
    assert env.observation_space(params).n == 25
    obs, state = env.reset(KEY, params)
    assert obs == 0
    obs, state, *_ = env.step(KEY, state, 0, params)
    assert obs == 5 * state.row + state.column
    assert obs in (5, 6)


def test_four_rooms_counts_cells_row_by_row():
    env, params = envs.make("FourRooms-misc", observations="index")
    raw, _ = envs.make("FourRooms-misc", observations="raw")
    keys = jax.random.split(KEY, 64)
    obs, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, params)
    positions = np.asarray(state.pos)
    np.testing.assert_array_equal(obs, positions[:, 0] * 13 + positions[:, 1])
    assert raw.observation_space(params).shape == (4,)


def test_a_custom_index():
    raw, params = envs.make("MountainCar-v0", observations="raw")
    env = envs.StateIndex(raw, 10, lambda obs: (obs[0] + 1.2) / 1.8 * 10)
    obs, state = env.reset(KEY, params)
    assert obs.dtype == jnp.int32
    obs, *_, info = env.step(KEY, state, 2, params)
    assert 0 <= int(obs) < 10
    assert 0 <= int(info["final_observation"]) < 10
    assert env.num_actions == 3
    assert env.name == raw.name


@pytest.mark.parametrize("name", ["CartPole-v1", "Breakout-MinAtar", "Pendulum-v1"])
def test_environments_without_numbers_are_named(name):
    with pytest.raises(ValueError, match=f"{name}.*no state index.*GridWorld"):
        envs.make(name, observations="index")
