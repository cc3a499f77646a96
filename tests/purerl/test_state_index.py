import jax
import jax.numpy as jnp
import pytest

from purerl import envs

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("name", "options", "columns", "cell"),
    [
        ("DeepSea-bsuite", {"size": 5}, 5, lambda state: (state.row, state.column)),
        ("FourRooms-misc", {}, 13, lambda state: (state.pos[0], state.pos[1])),
    ],
)
def test_cells_are_counted_row_by_row(name, options, columns, cell):
    env, params = envs.make(name, observations="index", **options)
    assert env.observation_space(params).n == columns**2
    _, state = env.reset(KEY, params)
    step = jax.jit(env.step)
    for key in jax.random.split(KEY, 16):
        obs, state, *_ = step(key, state, jax.random.bernoulli(key).astype(int), params)
        row, column = cell(state)
        assert obs == columns * row + column


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
