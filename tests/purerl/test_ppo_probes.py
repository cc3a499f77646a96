"""PPO on environments with values and policies known in closed form."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, ppo
from tests.purerl import probes

GAMMA = 0.8
HYPERPARAMS = ppo.Hyperparams(learning_rate=1e-2, gamma=GAMMA, entropy_coef=0.0, vf_coef=1.0)
CONFIG = ppo.Config(
    total_timesteps=200 * 64, num_envs=8, num_steps=8, num_minibatches=1, hidden_sizes=(16,)
)


@cache
def trained(env_class, config=CONFIG):
    """Return the learner and a trained policy."""
    env = env_class()
    learner = ppo.PPO(config, env)
    result = jax.jit(learner.train)(jax.random.key(0), HYPERPARAMS, None, env.default_params)
    return learner, learner.policy(result.state)


def outputs(env_class, obs, config=CONFIG):
    """Return what the policy head gives and the values at observations [B, 1]."""
    learner, policy = trained(env_class, config)
    network = learner.network
    distribution, value, _ = network.apply(policy.params, jnp.asarray(obs)[:, None])
    return distribution, value


class ThreeSteps(probes.EndlessReward):
    """The same rewards and the same limit, but the third step ends in a terminal state."""

    length = 3
    terminates = True


@pytest.mark.long
@pytest.mark.parametrize(
    ("env_class", "obs", "values"),
    [
        (probes.ObservedReward, [-1.0, 1.0], [-1.0, 1.0]),
        (probes.DelayedReward, [0.0, 1.0], [GAMMA, 1.0]),
        (probes.EndlessReward, [0.0], [1 / (1 - GAMMA)]),
        # What a learner without bootstrapping at truncation would find there: the mean of the
        # values 1, 1 + gamma, 1 + gamma + gamma^2 at three steps that look the same.
        (ThreeSteps, [0.0], [1 + 2 / 3 * GAMMA + 1 / 3 * GAMMA**2]),
    ],
)
def test_values(env_class, obs, values):
    _, value = outputs(env_class, obs)
    # with lambda < 1 part of the target is the critic's own mean over steps that look the same
    tolerance = 0.3 if env_class is ThreeSteps else 0.02
    np.testing.assert_allclose(value, values, atol=tolerance)


@pytest.mark.long
def test_the_action_that_the_observation_asks_for():
    policy, value = outputs(probes.MatchingReward, [-1.0, 1.0])
    probability = jax.nn.softmax(policy.logits)
    assert probability[0, 0] > 0.95
    assert probability[1, 1] > 0.95
    np.testing.assert_allclose(value, 1.0, atol=0.1)


@pytest.mark.long
def test_continuous_actions():
    policy, _ = outputs(probes.TargetAction, [-1.0, 1.0])
    np.testing.assert_allclose(policy.mode()[:, 0], [-0.5, 0.5], atol=0.1)
    assert (jnp.exp(policy.log_std) < 0.5).all()  # less exploration than at the start


@pytest.mark.long
def test_squashed_actions():
    config = dataclasses.replace(CONFIG, squash_actions=True, state_dependent_std=True)
    policy, _ = outputs(probes.TargetAction, [-1.0, 1.0], config)
    np.testing.assert_allclose(jnp.tanh(policy.mode()[:, 0]), [-0.5, 0.5], atol=0.1)
    learner, saved = trained(probes.TargetAction, config)
    action, _ = acting.act(learner, saved, None, jax.random.key(0), jnp.ones(1), greedy=True)
    np.testing.assert_allclose(action, jnp.tanh(policy.mode()[1]), rtol=1e-5)
