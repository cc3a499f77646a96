"""Gradients of trainings with respect to meta-parameters, against differences."""

import jax
import jax.numpy as jnp
import optax
import pytest

from metaevo.training.derivatives import train_and_differentiate
from purerl import dqn, envs, ppo
from purerl.parts import losses
from purerl.parts.normalization import standardized
from tests.purerl import probes

HYPERPARAMS = ppo.Hyperparams(gamma=0.9, gae_lambda=0.8, entropy_coef=0.0, vf_coef=0.0)
UPDATES = 4


def learner_of(env):
    def policy_loss(meta, context, log_ratio, advantage):
        return meta["scale"] * losses.clipped_surrogate(None, context, log_ratio, advantage)

    config = ppo.Config(
        total_timesteps=UPDATES * 24, num_envs=4, num_steps=6, update_epochs=2, num_minibatches=1,
        hidden_sizes=(3,),
    )  # fmt: skip
    return ppo.PPO(config, env, losses.squared, policy_loss, lambda *_: optax.sgd(0.5))


def gain_of_a_training(learner, key, scale, env_params):
    """The objective, written out.

    The critic does not learn, so advantages stay as they are as long as no action changes.
    """
    meta = {"scale": scale}
    state, total = learner.init(key, HYPERPARAMS, meta, env_params), 0.0
    state, transitions, _ = learner.collect(state, env_params)
    state, batch = learner.make_batch(state, transitions, HYPERPARAMS)
    for _ in range(UPDATES):
        state, _ = learner.learn(state, batch, HYPERPARAMS, meta)
        state, transitions, _ = learner.collect(state, env_params)
        state, batch = learner.make_batch(state, transitions, HYPERPARAMS)
        total += jnp.mean(transitions.log_prob.reshape(-1) * standardized(batch.advantage))
    return total


@pytest.mark.long
def test_the_gradient_matches_differences_of_the_objective():
    """In most of the differences no action changes; the median leaves out the rest."""
    env = probes.Cycle()
    learner, env_params = learner_of(env), probes.Cycle().default_params

    @jax.jit
    @jax.vmap
    def compare(key):
        def gain(scale):
            return gain_of_a_training(learner, key, scale, env_params)

        result, found = train_and_differentiate(
            learner, key, HYPERPARAMS, {"scale": jnp.float32(1.0)}, env_params, UPDATES
        )
        alone = learner.train(key, HYPERPARAMS, {"scale": jnp.float32(1.0)}, env_params)
        return found["scale"], (gain(1.002) - gain(0.998)) / 0.004, result, alone

    found, difference, result, alone = compare(jax.random.split(jax.random.key(3), 16))
    assert jnp.min(jnp.abs(difference)) > 1e-3
    assert jnp.median(jnp.abs(found / difference - 1)) < 0.01
    assert jnp.allclose(result.episodes.steps, alone.episodes.steps)
    assert jnp.allclose(result.episodes.rewards, alone.episodes.rewards)


def test_unsupported_learners_and_windows_are_refused():
    env, env_params = envs.make("CartPole-v1")
    other = dqn.DQN(dqn.Config(), env, losses.squared)
    with pytest.raises(ValueError, match="only PPO"):
        train_and_differentiate(other, jax.random.key(0), None, {}, env_params, 2)
    with pytest.raises(ValueError, match="window of 3 updates must divide a training's 4"):
        train_and_differentiate(learner_of(env), jax.random.key(0), None, {}, env_params, 3)
