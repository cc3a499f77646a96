"""A victim as an environment: what it hears and does, what is earned, and where episodes end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs
from purerl.envs.steering import PLACES, Steering, SteeringParams, steer

STEPS, SCALE = 30, 3.0


def act(policy, heard):
    """Go right where the first number of the message is above what the policy says."""
    assert heard.shape == (6,)
    return (heard[4] > policy).astype(jnp.int32)


@pytest.fixture(scope="module")
def steered():
    env, env_params = envs.make("CartPole-v1")
    own = Steering(env, act, PLACES["CartPole-v1"].of, width=2, steps=STEPS)
    return env, own, SteeringParams(env_params, jnp.float32(1.0), SCALE, -1.5, 0.5)


def test_the_message_moves_the_victim_and_the_goal_is_paid(steered):
    env, own, params = steered
    obs, state = own.reset(jax.random.key(3), params)
    inner_obs, inner = obs[:4], state.env
    step, inner_step = jax.jit(own.step), jax.jit(env.step_env)
    assert obs.shape == (5,)
    for index, message in enumerate((0.2, 0.4, -1.0, 1.0)):
        action = int(SCALE * message > 1.0)
        key = jax.random.key(index)
        obs, state, reward, *_ = step(key, state, jnp.array([message, 0.0]), params)
        inner_obs, inner, *_ = inner_step(key, inner, action, params.env)
        np.testing.assert_allclose(obs[:4], inner_obs, rtol=1e-4)
        assert obs[4] == state.goal
        expected = np.exp(-((float(inner_obs[0]) - float(state.goal)) ** 2))
        np.testing.assert_allclose(reward, expected, rtol=1e-5)


def test_goals_are_redrawn_in_their_range_each_episode(steered):
    _, own, params = steered

    def step(carry, key):
        state = carry
        _, state, _, terminated, truncated, _ = own.step(
            key, state, jax.random.uniform(key, (2,), minval=-1), params
        )
        return state, (state.goal, terminated, truncated, state.time)

    _, start = own.reset(jax.random.key(0), params)
    keys = jax.random.split(jax.random.key(1), 3000)
    goal, terminated, truncated, time = map(np.asarray, jax.lax.scan(step, start, keys)[1])
    assert terminated.any()
    assert truncated.any()
    assert time.max() == STEPS - 1
    ends = np.flatnonzero(terminated | truncated)
    assert (np.flatnonzero(np.diff(goal)) + 1 == ends[ends > 0]).all()
    assert goal.min() >= -1.5
    assert goal.max() <= 0.5
    assert abs(np.mean(goal[ends]) + 0.5) < 0.2
    assert abs(np.std(goal[ends]) - 2 / np.sqrt(12)) < 0.12


def test_no_reward_after_the_end(steered):
    """Always to the right the pole falls; nearness is paid until then."""
    _, own, params = steered
    course = jax.jit(
        lambda key: steer(own, lambda seen: jnp.ones(2), key, jnp.float32(0.25), params)
    )(jax.random.key(2))
    place, reward = map(np.asarray, course)
    fallen = int(np.argmin(reward > 0))
    assert 5 < fallen < 15
    np.testing.assert_allclose(reward[:fallen], np.exp(-((place[:fallen] - 0.25) ** 2)), rtol=1e-5)
    assert not reward[fallen:].any()


def test_steered_places_are_in_reach():
    """Places along random play lie within what is said to be their range."""
    for name, place in PLACES.items():
        env, params = envs.make(name)
        keys = jax.random.split(jax.random.key(0), 64)
        places = jax.jit(jax.vmap(lambda key, of=place.of: of(env.reset(key, params)[0])))(keys)  # noqa: B023
        assert np.abs(np.asarray(places)).max() <= place.reach(params)
