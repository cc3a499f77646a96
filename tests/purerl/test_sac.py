import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from purerl import acting, envs, sac
from purerl.parts import rollouts
from purerl.parts.evaluation import evaluate
from tests.purerl import probes, reference

KEY = jax.random.key(0)


def small(**changes):
    sizes = {"total_timesteps": 64, "num_envs": 4, "num_steps": 8, "train_interval": 8}
    return sac.Config(
        **{**sizes, "learning_starts": 32, "batch_size": 16, "hidden_sizes": (8,), **changes}
    )


def test_log_densities_of_squashed_actions():
    learner = sac.SAC(small(), probes.TargetAction())
    params = reference.drawn(learner.network, jnp.zeros((1, 1)))
    obs = jnp.linspace(-1.0, 1.0, 7)[:, None]
    action, log_prob = learner.sample(params, obs, KEY)
    policy = learner.network.apply(params, obs, method="policy")
    number = np.arctanh(np.asarray(action, np.float64))
    density = scipy.stats.norm(policy.mean, np.exp(policy.log_std)).pdf(number)
    expected = np.log(density / (1.0 - np.square(np.asarray(action, np.float64))))[:, 0]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_targets_by_hand():
    learner = sac.SAC(small(), probes.TargetAction())
    env_params = learner.env.default_params
    hyperparams = sac.Hyperparams(gamma=0.9)
    state = jax.jit(learner.init)(KEY, hyperparams, None, env_params)
    sums = rollouts.zero_sums(4)
    state, _ = jax.jit(learner.collect)(state, sums, KEY, hyperparams, env_params)
    batch = jax.jit(learner.make_batch)(state, KEY, hyperparams)
    rewards = np.asarray(state.ring.reward)[:8]
    assert set(np.asarray(batch.target)) <= set(rewards)  # every episode has one step
    endless = state.replace(ring=state.ring._replace(terminated=state.ring.terminated & False))
    batch = learner.make_batch(endless, KEY, hyperparams)
    row_key, action_key = jax.random.split(KEY)
    rows = learner.config.layout.draw_uniformly(row_key, state.phase, 16)
    following = state.ring.final_obs[rows]
    action, log_prob = learner.sample(state.params["network"], following, action_key)
    value = np.min(learner.values(state.target_params, following, action), axis=0)
    expected = state.ring.reward[rows] + 0.9 * (value - log_prob)  # the temperature begins as 1
    np.testing.assert_allclose(batch.target, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_pendulum_is_solved_by_vmapped_agents():
    env, env_params = envs.make("Pendulum-v1")
    learner = sac.SAC(sac.Config(), env)

    def score(key):
        state = learner.train(key, sac.Hyperparams(), None, env_params).state
        return evaluate(learner, learner.policy(state), key, env_params, num_episodes=16)

    scores = np.asarray(jax.jit(jax.vmap(score))(jax.random.split(KEY, 2)))
    assert scores.mean() > -200.0
    policy = learner.policy(jax.jit(learner.init)(KEY, sac.Hyperparams(), None, env_params))
    action, memory = acting.act(learner, policy, None, KEY, jnp.zeros(3), greedy=False)
    assert action.shape == (1,)
    assert memory is None
