import jax
import numpy as np
import pytest

from purerl import envs, ppo
from purerl.parts import losses
from purerl.parts.evaluation import evaluate, mean_return
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium

pytestmark = pytest.mark.long


def last_tenth(episodes):
    updates = episodes.episodes.shape[1]
    late = jax.tree.map(lambda sums: sums[:, updates - updates // 10 :], episodes)
    return np.asarray(jax.vmap(mean_return)(late))


def test_it_learns_and_scores_the_same_in_gymnasium():
    """Four agents with 65,536 steps each, close to CleanRL's settings."""
    env, env_params = envs.make("CartPole-v1")
    config = ppo.Config(total_timesteps=65_536, num_envs=4, num_steps=64, num_minibatches=2)
    learner = ppo.PPO(config, env, losses.clipped_squared)
    train = jax.jit(jax.vmap(learner.train, in_axes=(0, None, None, None)))
    keys = jax.random.split(jax.random.key(0), 4)
    result = train(keys, ppo.Hyperparams(learning_rate=1e-3), None, env_params)
    returns = last_tenth(result.episodes)
    first = jax.tree.map(lambda sums: sums[:, :8], result.episodes)
    assert mean_return(first) < 50  # random play lasts 22 steps
    assert np.mean(returns) > 200, returns

    policies = learner.policy(result.state)
    scores = jax.jit(
        jax.vmap(lambda policy, key: evaluate(learner, policy, key, env_params, num_episodes=16))
    )(policies, jax.random.split(jax.random.key(1), 4))
    best = int(np.argmax(scores.mean(axis=1)))
    assert scores.max() <= 500
    assert scores[best].mean() > 400, scores
    policy = jax.tree.map(lambda leaf: leaf[best], policies)
    there = evaluate_in_gymnasium(learner, policy, "CartPole-v1", num_episodes=5, seed=3)
    assert there.mean() > 400, there


@pytest.mark.slow
def test_reaches_cleanrls_score():
    """At least 475 over the last tenth of 500,000 steps at CleanRL's settings, mean of 8 seeds.

    pytest -m slow tests/purerl/test_ppo_cartpole.py
    """
    env, env_params = envs.make("CartPole-v1")
    train = ppo.make_train(ppo.Config(), env, value_loss=losses.clipped_squared)
    keys = jax.random.split(jax.random.key(0), 8)
    result = jax.jit(jax.vmap(train, in_axes=(0, None, None, None)))(
        keys, ppo.Hyperparams(), None, env_params
    )
    returns = last_tenth(result.episodes)
    print("mean return over the last tenth:", np.round(returns, 1))
    assert np.mean(returns) >= 475, returns
