"""Values of next observations and their derivatives, against the critic."""

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from purerl.fast.next_values import next_values


def critic(offset, obs):
    return jnp.sum(jnp.square(obs), axis=-1) - offset


following = jax.jit(jax.vmap(lambda *rollout: next_values(critic, 1.0, *rollout)))


@pytest.mark.long
@given(
    npst.arrays(np.bool_, (3, 6, 2)),
    npst.arrays(np.bool_, (3, 6, 2)),
    npst.arrays(np.float32, (3, 7, 2, 2), elements=st.floats(-3, 3, width=32)),
    npst.arrays(np.float32, (3, 6, 2, 2), elements=st.floats(-3, 3, width=32)),
)
def test_next_values_match_the_critic(terminated, truncated, obs, ends):
    # three agents with two environments each; observations after an end are those of a reset
    done = (terminated | truncated)[..., None]
    final_obs = np.where(done, ends, obs[:, 1:])
    values = following(critic(1.0, obs[:, :-1]), final_obs, terminated, truncated)
    used = ~terminated
    # a sum of squares is rounded before one is taken away from it
    np.testing.assert_allclose(values[used], critic(1.0, final_obs)[used], rtol=1e-6, atol=2e-6)


def test_the_critic_is_evaluated_only_where_needed():
    obs = jnp.arange(8.0)[:, None, None]  # one environment, eight steps
    truncated = jnp.zeros((7, 1), bool).at[jnp.array([2, 4])].set(True)
    terminated = jnp.zeros((7, 1), bool).at[jnp.array([1, 4])].set(True)
    ends = jnp.array([1, 2, 4])
    final_obs = obs[1:].at[ends].add(10.0)
    seen = []

    def recorder(offset, obs):
        seen.extend(np.ravel(obs).tolist())
        return critic(offset, obs)

    with jax.disable_jit():  # or the loop would be traced, not run
        values = next_values(recorder, 1.0, critic(1.0, obs[:-1]), final_obs, terminated, truncated)
    assert sorted(seen) == [7.0, 13.0]  # what the rollout led to, and the only mere truncation
    used = np.array([0, 2, 3, 5, 6])
    expected = np.array([1.0, 13.0, 4.0, 6.0, 7.0])
    np.testing.assert_allclose(values[used, 0], np.square(expected) - 1.0)


@pytest.mark.long
@pytest.mark.parametrize("agents", [None, 3])
def test_derivatives_match_evaluating_every_step(agents):
    lead, rng = () if agents is None else (agents,), np.random.default_rng(0)
    terminated, truncated = jnp.asarray(rng.random((2, *lead, 6, 2)) < 0.4)
    weights = jnp.asarray(rng.normal(size=(*lead, 3)), jnp.float32)
    obs = jnp.asarray(rng.normal(size=(*lead, 7, 2, 3)), jnp.float32)
    ends = jnp.asarray(rng.normal(size=(*lead, 6, 2, 3)), jnp.float32)

    def critic(weights, obs):
        return jnp.tanh(obs @ weights)

    def rollout(obs, ends, terminated, truncated):
        done = jnp.logical_or(terminated, truncated)[..., None]
        return obs[:-1], jnp.where(done, ends, obs[1:])

    def objective(values, terminated):
        return jnp.sum(jnp.where(terminated, 0.0, jnp.sin(values)))

    def plain(weights, obs, ends, terminated, truncated):
        _, final_obs = rollout(obs, ends, terminated, truncated)
        return objective(critic(weights, final_obs), terminated)

    def ours(weights, obs, ends, terminated, truncated):
        obs, final_obs = rollout(obs, ends, terminated, truncated)
        value = critic(weights, obs)
        following = next_values(critic, weights, value, final_obs, terminated, truncated)
        return objective(following, terminated)

    orders = (lambda f: jax.grad(f, (0, 1, 2))), (lambda f: jax.jacrev(jax.grad(f)))
    for order in orders:
        derivatives = (order(f) if agents is None else jax.vmap(order(f)) for f in (plain, ours))
        expected, actual = (f(weights, obs, ends, terminated, truncated) for f in derivatives)
        jax.tree.map(
            lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5), actual, expected
        )
