"""Every suite against its own loop, step by step. Skipped where the suite's extra is missing."""

from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs
from purerl.envs import registry
from purerl.envs.suite import quiet


def needs(suite):
    return pytest.mark.skipif(
        find_spec(suite) is None, reason=f"needs pip install 'metaevo[{suite}]'"
    )


@pytest.fixture(autouse=True)
def _quiet():
    with quiet():
        yield


def brax_loop(name, limit):
    from brax import envs as robots

    env = robots.create(name, episode_length=limit, auto_reset=False, backend="spring")

    def reset(key):
        state = env.reset(key)
        return state.obs, state

    def step(key, state, action):
        state = env.step(state, action)
        cut = state.info["truncation"] > 0
        return state.obs, state, state.reward, state.done > 0, cut

    return reset, step


def navix_loop(name, limit):
    import navix

    env = navix.make(f"Navix-{name}-v0", max_steps=limit)

    def reset(key):
        timestep = env.reset(key)
        return timestep.observation, timestep

    def step(key, timestep, action):
        # what moves by itself moves by a key in the state; ours moves by the step's
        timestep = timestep.replace(state=timestep.state.replace(key=key))
        timestep = env.step(timestep, action)
        done = timestep.step_type > 0
        return timestep.observation, timestep, timestep.reward, done, timestep.is_truncation()

    return reset, step


LOOPS = {"brax": brax_loop, "navix": navix_loop}


def lockstep(full_name, limit, episodes):
    """Play random episodes here and in the suite's own loop, until all have ended.

    Returns:
        for each, ours and the suite's: observations, rewards, whether it is done, whether by the
        limit alone; and whether the episode was still going on [limit, episodes].
    """
    suite, _, name = full_name.partition("/")
    env, params = envs.make(
        full_name, observations="raw", pool=None, max_steps_in_episode=limit
    )
    own_reset, own_step = LOOPS[suite](name, limit)

    def one_step(carry, key):
        state, own_state, going = carry
        action_key, key = jax.random.split(key)
        action = env.action_space(params).sample(action_key)
        _, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        own_obs, own_state, own_reward, own_done, own_cut = own_step(
            jax.random.split(key)[0], own_state, action
        )
        done = terminated | truncated
        ours = info["final_observation"], reward, done, truncated & ~terminated
        own = own_obs, jnp.float32(own_reward), own_done, own_cut
        return (state, own_state, going & ~done), (ours, own, going)

    def episode(key):
        key, *keys = jax.random.split(key, limit + 1)
        obs, state = env.reset(key, params)
        own_obs, own_state = own_reset(key)
        _, steps = jax.lax.scan(
            one_step, (state, own_state, jnp.bool_(True)), jnp.stack(keys)
        )
        return (obs, own_obs), steps

    keys = jax.random.split(jax.random.key(7), episodes)
    return jax.device_get(jax.jit(jax.vmap(episode))(keys))


@pytest.mark.parametrize(
    ("name", "limit", "episodes"),
    [
        pytest.param("brax/inverted_pendulum", 25, 1000, marks=[needs("brax"), pytest.mark.long]),
        pytest.param("brax/reacher", 10, 100, marks=[needs("brax"), pytest.mark.long]),
        pytest.param("navix/Empty-Random-5x5", 40, 1000, marks=needs("navix")),
        pytest.param("navix/Dynamic-Obstacles-6x6", 20, 1000, marks=[needs("navix"), pytest.mark.long]),
        pytest.param("navix/DoorKey-6x6", 60, 1000, marks=[needs("navix"), pytest.mark.long]),
    ],
)
def test_rewards_and_ends_are_the_suites_own(name, limit, episodes):
    firsts, (ours, own, going) = lockstep(name, limit, episodes)
    np.testing.assert_array_equal(*firsts)
    (obs, reward, done, cut), (own_obs, own_reward, own_done, own_cut) = ours, own
    np.testing.assert_array_equal(done[going], own_done[going])
    np.testing.assert_array_equal(cut[going], own_cut[going])
    np.testing.assert_allclose(obs[going], own_obs[going], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        np.sum(reward * going, axis=1), np.sum(own_reward * going, axis=1), rtol=1e-5, atol=1e-5
    )
    assert done.any(axis=1).all()
    if name not in ("brax/reacher",):  # which has no terminal states
        assert 0 < cut[going].sum() < episodes


@pytest.mark.parametrize("suite", [pytest.param(name, marks=needs(name)) for name in LOOPS])
def test_the_names_are_those_of_the_suite(suite):
    if suite == "brax":
        from brax import envs as robots

        own = set(robots._envs) - {"swimmer"}
    else:
        import navix

        own = {name.removeprefix("Navix-").removesuffix("-v0") for name in navix.registry()}
    assert set(registry.SUITES[suite].names) == own


@needs("brax")
def test_a_backend_that_does_not_exist():
    message = "backend = 'bullet' must be one of spring, positional, generalized, mjx"
    with pytest.raises(ValueError, match=message):
        envs.make("brax/ant", backend="bullet")


@needs("navix")
def test_a_grid_is_seen_in_planes():
    env, params = envs.make("navix/Empty-Random-5x5", pool=16)
    raw, _ = envs.make("navix/Empty-Random-5x5", pool=16, observations="raw")
    planes, state = env.reset(jax.random.key(0), params)
    symbols, _ = raw.reset(jax.random.key(0), params)
    assert planes.shape == (5, 5, 21)
    assert env.observation_space(params).shape == planes.shape
    split = np.split(np.asarray(planes), [11, 17], axis=-1)
    np.testing.assert_array_equal(np.stack([x.argmax(-1) for x in split], -1), symbols)
    assert all((x.sum(-1) == 1).all() for x in split)
    kilobytes = sum(leaf.nbytes for leaf in jax.tree.leaves(state)) / 1000
    assert kilobytes < 1  # without the picture
