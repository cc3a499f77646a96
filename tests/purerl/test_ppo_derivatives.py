"""Derivatives of whole trainings with respect to meta-parameters."""

import jax
import jax.numpy as jnp
import optax
import pytest

from purerl import ppo
from purerl.parts import losses
from tests.purerl import probes

pytestmark = pytest.mark.long


def test_a_whole_training_has_derivatives():
    env = probes.Cycle()

    def value_loss(meta, context, *values):
        return meta * losses.squared(None, context, *values)

    def no_policy_loss(*_):  # or actions, of which there are two, would jump
        return jnp.float32(0.0)

    def sgd(*_):
        return optax.sgd(0.1)

    config = ppo.Config(
        total_timesteps=3 * 24, num_envs=4, num_steps=6, update_epochs=3, num_minibatches=1,
        hidden_sizes=(3, 3),
    )  # fmt: skip
    train = ppo.make_train(
        config, env, value_loss=value_loss, policy_loss=no_policy_loss, make_optimizer=sgd
    )
    hyperparams = ppo.Hyperparams(gamma=0.9, gae_lambda=0.8, entropy_coef=0.0)

    @jax.jit
    def bias(meta):
        params = train(jax.random.key(0), hyperparams, meta, env.default_params).state.params
        return params["params"]["value_head"]["bias"][0]

    difference = float(bias(1.05) - bias(0.95)) / 0.1
    assert float(jax.grad(bias)(1.0)) == pytest.approx(difference, rel=0.01)
    assert abs(difference) > 0.01
