"""Derivatives of whole trainings with respect to meta-parameters."""

import jax
import jax.numpy as jnp
import optax
import pytest

from purerl import envs, ppo
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


@pytest.mark.parametrize(
    "name", ["BernoulliBandit-misc", pytest.param("CartPole-v1", marks=pytest.mark.slow)]
)
def test_derivatives_of_trainings_in_several_environments(name):
    # their spaces are computed from parameters of the environment, which are traced here
    env, env_params = envs.make(name)
    config = ppo.Config(
        total_timesteps=16, num_envs=1, num_steps=8, update_epochs=1, num_minibatches=1,
        hidden_sizes=(2,),
    )  # fmt: skip

    def value_loss(meta, context, *values):
        return meta * losses.squared(None, context, *values)

    train = ppo.make_train(config, env, value_loss=value_loss)

    def bias(meta, env_params):
        params = train(jax.random.key(0), ppo.Hyperparams(), meta, env_params).state.params
        return params["params"]["value_head"]["bias"][0]

    def mean(meta, env_params):
        return jax.vmap(bias, in_axes=(None, 0))(meta, env_params).mean()

    twice = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 2), env_params)
    of_one, of_mean = jax.jit(lambda *p: (jax.grad(bias)(1.0, p[0]), jax.grad(mean)(1.0, p[1])))(
        env_params, twice
    )
    assert float(of_one) == pytest.approx(float(of_mean), rel=1e-3)
    assert abs(of_one) > 0.0
