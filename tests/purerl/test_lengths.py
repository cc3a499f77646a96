"""A traced length of training: one program trains agents for different numbers of updates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import dqn, envs, lpg, ppo, q_learning
from purerl.parts.own_task import OwnTask, sampler

MOST = 6
LEARNERS = {
    "ppo": (
        ppo.PPO,
        lambda n: ppo.Config(
            total_timesteps=16 * n, num_envs=2, num_steps=8, num_minibatches=2, hidden_sizes=(4,)
        ),
    ),
    "dqn": (
        dqn.DQN,
        lambda n: dqn.Config(
            total_timesteps=20 * n, num_envs=2, num_steps=10, train_interval=10, batch_size=4,
            buffer_size=40, learning_starts=10, hidden_sizes=(8,),
        ),
    ),
    "q_learning": (
        q_learning.QLearning,
        lambda n: q_learning.Config(total_timesteps=32 * n, num_steps=32),
    ),
    "lpg": (lpg.LPG, lambda n: lpg.Config(total_timesteps=32 * n, num_envs=2, num_steps=16)),
}  # fmt: skip
HYPERPARAMS = {
    "ppo": ppo.Hyperparams(final_learning_rate=0.1),
    "dqn": dqn.Hyperparams(final_learning_rate=0.1),
    "q_learning": q_learning.Hyperparams(epsilon_end=0.1),
    "lpg": lpg.Hyperparams(final_learning_rate=0.1),
}


# All learners share `purerl.parts.training`; that one compiles fastest.
CASES = [pytest.param(name, marks=[] if name == "lpg" else pytest.mark.long) for name in LEARNERS]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    make, config = LEARNERS[request.param]
    observations = "index" if request.param == "q_learning" else "auto"
    env, env_params = envs.make("GridWorld", observations=observations, size=3)
    longest = make(config(MOST), env)
    train = jax.jit(lambda n: longest.train(jax.random.key(1), hyperparams, None, env_params, n))
    hyperparams = HYPERPARAMS[request.param]

    def alone(n):
        return make(config(n), env).train(jax.random.key(1), hyperparams, None, env_params)

    return train, alone, longest


def test_it_equals_a_training_of_that_length(case):
    train, alone, longest = case
    found, expected = train(jnp.int32(2)), jax.jit(lambda: alone(2))()
    policies = longest.policy(found.state), longest.policy(expected.state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *policies)
    for field, other in zip(found.episodes, expected.episodes, strict=True):
        np.testing.assert_array_equal(field[:2], other)
        np.testing.assert_array_equal(field[2:], 0.0)
    assert all(leaf.shape == (MOST,) for leaf in jax.tree.leaves(found.metrics))


def test_all_lengths_share_a_program(case):
    train, _, _ = case
    steps = [float(jnp.sum(train(jnp.int32(n)).episodes.steps)) for n in (1, 4, MOST)]
    assert np.allclose(np.array(steps) / steps[0], [1, 4, MOST])
    assert train._cache_size() == 1


def test_lengths_differ_between_agents():
    make, config = LEARNERS["lpg"]
    env, env_params = envs.make("GridWorlds", size=3)
    learner = OwnTask(make(config(MOST), env), sampler(env))
    train = jax.vmap(
        lambda key, n: learner.train(key, lpg.Hyperparams(), None, env_params, num_updates=n)
    )
    result = jax.jit(train)(jax.random.split(jax.random.key(0), 2), jnp.array([1, 3]))
    np.testing.assert_array_equal(np.sum(result.episodes.steps > 0, axis=1), [1, 3])
