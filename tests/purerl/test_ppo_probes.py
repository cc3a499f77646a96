"""PPO with squashed actions, on an environment whose best action is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, ppo
from tests.purerl import probes

HYPERPARAMS = ppo.Hyperparams(learning_rate=1e-2, gamma=0.8, entropy_coef=0.0, vf_coef=1.0)
CONFIG = ppo.Config(
    total_timesteps=200 * 64, num_envs=8, num_steps=8, num_minibatches=1, hidden_sizes=(16,),
    squash_actions=True, state_dependent_std=True,
)  # fmt: skip


@pytest.mark.long
def test_squashed_actions():
    env = probes.TargetAction()
    learner = ppo.PPO(CONFIG, env)
    result = jax.jit(learner.train)(jax.random.key(0), HYPERPARAMS, None, env.default_params)
    trained = learner.policy(result.state)
    policy, _, _ = learner.network.apply(trained.params, jnp.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(jnp.tanh(policy.mode()[:, 0]), [-0.5, 0.5], atol=0.1)
    action, _ = acting.act(learner, trained, None, jax.random.key(0), jnp.ones(1), greedy=True)
    np.testing.assert_allclose(action, jnp.tanh(policy.mode()[1]), rtol=1e-5)
