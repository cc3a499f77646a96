import os

import jax
import numpy as np
import pytest

from purerl import ppo
from tests.processes import python
from tests.purerl import probes
from tests.purerl.test_ppo import CONFIG, HYPERPARAMS, KEY

pytestmark = pytest.mark.long

POPULATION = """
import jax
from purerl import envs, ppo

env, env_params = envs.make("CartPole-v1")
config = ppo.Config(total_timesteps=128, num_envs=4, num_steps=8, hidden_sizes=(32, 32))
train = jax.jit(jax.vmap(ppo.make_train(config, env), in_axes=(0, None, None, None)))
keys = jax.random.split(jax.random.key(0), 64)
for _ in range(2):
    result = jax.block_until_ready(train(keys, ppo.Hyperparams(), None, env_params))
print("finished", result.episodes.episodes.shape)
"""


def test_a_population_does_not_deadlock():
    """64 agents on one multi-threaded device; the limit is far beyond what it takes."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    cores = sorted(os.sched_getaffinity(0))[:2]  # few cores are where it would happen
    limit = f"import os; os.sched_setaffinity(0, {cores})\n"
    process = python("-c", limit + POPULATION, env=environment)
    assert process.returncode == 0, process.stderr
    assert "finished (64, 4)" in process.stdout


def test_actions_are_clipped_for_the_environment_only():
    """What is learned from is the action that was drawn: its density is the policy's."""

    class Shown(probes.TargetAction):
        def pay(self, state, action, params):
            return action[0]

    env = Shown()
    learner = ppo.PPO(CONFIG, env)
    state = learner.init(KEY, HYPERPARAMS, None, env.default_params)
    _, transitions, _ = jax.jit(learner.collect)(state, env.default_params)
    action = np.asarray(transitions.action[..., 0])
    assert np.abs(action).max() > 1
    np.testing.assert_allclose(transitions.reward, np.clip(action, -1, 1), rtol=1e-6)
    density = -(action**2) / 2 - np.log(2 * np.pi) / 2  # the mean is close to 0 at the start
    np.testing.assert_allclose(transitions.log_prob, density, atol=0.1)


def test_continuous_actions():
    env = probes.TargetAction()
    config = ppo.Config(
        200 * 64, num_envs=8, num_steps=8, num_minibatches=1, hidden_sizes=(16,),
        squash_actions=True, state_dependent_std=True,
    )  # fmt: skip
    learner = ppo.PPO(config, env)
    hyperparams = ppo.Hyperparams(learning_rate=1e-2, gamma=0.8, entropy_coef=0.0, vf_coef=1.0)
    result = jax.jit(learner.train)(KEY, hyperparams, None, env.default_params)
    policy = learner.policy(result.state)
    distribution, *_ = learner.network.apply(policy.params, np.array([[-1.0], [1.0]]))
    actions = distribution.bounded(distribution.mode(), env.action_space())
    np.testing.assert_allclose(actions[:, 0], [-0.5, 0.5], atol=0.1)
    assert (np.exp(distribution.log_std) < 0.5).all()  # less exploration than at the start
