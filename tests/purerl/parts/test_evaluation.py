import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, envs, ppo
from purerl.parts import rollouts
from purerl.parts.evaluation import evaluate, mean_return
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium
from purerl.parts.normalization import RunningStatistics
from purerl.types import EpisodeSums
from tests.purerl import probes
from tests.purerl.probes import Fixed
from tests.purerl.reference import drawn

KEY = jax.random.key(0)


class OnePerStep(probes.Cycle):
    """Return and length of an episode are the same: 1 to 4."""

    def step_env(self, key, state, action, params):
        obs, state, _, terminated, info = super().step_env(key, state, action, params)
        return obs, state, jnp.float32(1), terminated, info


def new_agent(env):
    learner = ppo.PPO(ppo.Config(hidden_sizes=(4,)), env)
    obs = jnp.zeros(env.observation_space(env.default_params).shape)
    params = jax.tree.map(lambda x: 0.1 * x, drawn(learner.network, obs))
    return learner, ppo.Policy(params, None)


@pytest.mark.smoke
def test_mean_return_counts_finished_episodes_only():
    zeros = jnp.zeros(3)
    sums = EpisodeSums(jnp.array([0.0, 1.0, 3.0]), jnp.array([0.0, 10.0, 6.0]), zeros, zeros, zeros)
    assert mean_return(sums) == 4.0
    assert np.isnan(mean_return(EpisodeSums(*[zeros] * 5)))
    by_update = jax.vmap(mean_return)(sums)
    np.testing.assert_array_equal(by_update, [np.nan, 10.0, 2.0])


def test_each_episode_is_played_to_its_first_end():
    env = OnePerStep()
    play = jax.jit(lambda key: evaluate(Fixed(env), (), key, env.default_params, num_episodes=1000))
    returns = play(KEY)
    assert returns.shape == (1000,)
    assert set(np.unique(returns)) == {1.0, 2.0, 3.0, 4.0}
    # an episode goes on with probability 0.8 (0.79954 for a normal below 0.84) up to 4 steps
    lengths = [0.2, 0.8 * 0.2, 0.64 * 0.2, 0.512]
    frequency = [np.mean(np.asarray(returns) == length) for length in (1, 2, 3, 4)]
    np.testing.assert_allclose(frequency, lengths, atol=5 * 0.5 / np.sqrt(1000))
    np.testing.assert_array_equal(returns, play(KEY))
    assert not np.array_equal(returns, play(jax.random.key(1)))


def test_greedy_and_sampled():
    env = probes.ActionReward()
    learner, policy = new_agent(env)

    def play(greedy):
        return evaluate(learner, policy, KEY, env.default_params, num_episodes=64, greedy=greedy)

    scores = [np.asarray(jax.jit(play, static_argnums=0)(greedy)) for greedy in (True, False)]
    assert np.unique(scores[0]).size == 1
    assert set(np.unique(scores[1])) == {-1.0, 1.0}


def test_actions_are_bounded_by_the_env_params():
    env, env_params = envs.make("Pendulum-v1", max_torque=0.5)
    learner, policy = new_agent(env)
    head = policy.params["params"]["policy_head"]
    head["bias"] = jnp.array([100.0])
    obs = jnp.zeros(3)
    act = functools.partial(acting.act, learner, policy, None, KEY, obs, greedy=True)
    assert act()[0] == 2.0
    assert act(env_params=env_params)[0] == 0.5


def test_acting_normalizes_observations():
    learner, policy = new_agent(probes.MatchingReward())
    statistics = RunningStatistics(jnp.array([3.0]), jnp.array([4.0]), jnp.float32(1))

    def logits(statistics, obs):
        normalizing = policy._replace(observation_statistics=statistics)
        return learner.action_distribution(normalizing, jnp.array([obs]))[0].logits

    np.testing.assert_allclose(logits(statistics, 1.0), logits(None, -1.0), rtol=1e-5)
    assert not np.allclose(logits(statistics, 1.0), logits(None, 1.0))


def test_gymnasium_is_really_played():
    """Against a loop written here, with a policy whose actions depend on nothing."""
    returns = evaluate_in_gymnasium(
        Fixed(envs.make("CartPole-v1")[0], np.int32(1)), (), "CartPole-v1", num_episodes=3, seed=5
    )
    env, expected = gymnasium.make("CartPole-v1"), []
    for seed in (5, 6, 7):
        env.reset(seed=seed)
        done, total = False, 0.0
        while not done:
            _, reward, terminated, truncated, _ = env.step(1)
            total, done = total + reward, terminated or truncated
        expected.append(total)
    np.testing.assert_array_equal(returns, expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("FourRooms-misc", "Gymnasium has no environment 'FourRooms-misc'"),
        ("Acrobot-v1", r"Gymnasium's Acrobot-v1 has observations of size 6, the agent's .* \(4,\)"),
    ],
)
def test_no_such_environment_in_gymnasium(name, message):
    with pytest.raises(ValueError, match=message):
        evaluate_in_gymnasium(Fixed(envs.make("CartPole-v1")[0]), (), name)


T, N = 12, 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unfinished_episode_without_a_return_is_not_counted(bad):
    rewards = jnp.ones((T, N)).at[8, 1].set(bad)
    done = jnp.zeros((T, N), bool).at[jnp.array([3, 7])].set(True).at[10, 0].set(True)

    def step(carry, row):
        return rollouts.record(*carry, *row), None

    (_, sums), _ = jax.lax.scan(
        step,
        (rollouts.Unfinished(jnp.zeros(N), jnp.zeros(N)), rollouts.zero_sums(N)),
        (rewards, done),
    )
    np.testing.assert_array_equal(sums.returns, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.lengths, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.episodes, [3.0, 2.0, 2.0])
    np.testing.assert_array_equal(np.isfinite(sums.rewards), [True, False, True])
