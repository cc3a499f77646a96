import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from purerl import envs, lpg
from purerl.lpg import Targets
from purerl.parts import optimizers
from purerl.types import Context
from tests.purerl.parts.test_returns import brute_force_of_all
from tests.purerl.reference import drawn, trajectory

KEY = jax.random.key(0)
T, N = 6, 3
CONFIG = lpg.Config(total_timesteps=T * N * 4, num_envs=N, num_steps=T)
HYPERPARAMS = lpg.Hyperparams(
    learning_rate=0.3, prediction_coef=0.7, max_grad_norm=1e9, gamma=0.9, gae_lambda=0.8
)


def grid_world(**overrides):
    return envs.make("GridWorld", **{"size": 3, "max_steps_in_episode": 4, **overrides})


def categorical(meta_params, context, trajectory):
    del meta_params
    logits = jnp.flip(trajectory.next_prediction, axis=-1) + trajectory.reward[..., None]
    return Targets(jnp.exp(trajectory.log_prob) + context.progress, logits)


def test_a2c_against_explicit_sums():
    seen = trajectory((T, N))
    within = ~(seen.terminated | seen.truncated)[:-1]
    seen.next_prediction[:-1][within] = seen.prediction[1:][within]
    targets = lpg.a2c(None, Context(HYPERPARAMS), seen)
    value, following = seen.prediction[..., 0], seen.next_prediction[..., 0]
    advantage = brute_force_of_all(
        seen.reward, value, following, seen.terminated, seen.truncated, gamma=0.9, lam=0.8
    )
    np.testing.assert_allclose(targets.policy, advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(targets.prediction, advantage + value, rtol=1e-4, atol=1e-5)
    assert targets.entropy == HYPERPARAMS.entropy_coef


def tables_after_one_step(tables, experience, targets, entropy_coef):
    """Plain gradient descent on tables [states, actions] and [states, predictions], in loops."""
    policy, prediction = (np.asarray(table, np.float64) for table in tables)
    steps = [np.zeros_like(policy), np.zeros_like(prediction)]
    for t in range(T):
        for n in range(N):
            state = int(np.argmax(experience.obs[t, n]))
            chances = softmax(policy[state])
            likelier = np.eye(4)[experience.action[t, n]] - chances
            steps[0][state] += float(targets.policy[t, n]) * likelier
            surprise = -log_softmax(policy[state])
            spread = chances * (surprise - chances @ surprise)
            steps[0][state] += entropy_coef * spread
            if targets.prediction.ndim == 2:
                error = prediction[state, 0] - float(targets.prediction[t, n])
                steps[1][state, 0] -= 0.7 * error
            else:
                own = softmax(prediction[state])
                gap = log_softmax(prediction[state]) - log_softmax(targets.prediction[t, n])
                steps[1][state] -= 0.7 * own * (gap - own @ gap)
    return policy + 0.3 * steps[0] / (T * N), prediction + 0.3 * steps[1] / (T * N)


@pytest.mark.parametrize("rule", [lpg.a2c, pytest.param(categorical, marks=pytest.mark.long)])
def test_a_tabular_update_by_hand(rule):
    env, env_params = grid_world()
    learner = lpg.LPG(CONFIG, env, rule, optimizers.sgd)
    hyperparams = HYPERPARAMS.replace(entropy_coef=0.2)
    state = jax.jit(learner.init)(KEY, hyperparams, None, env_params)
    params = drawn(learner.network, state.envs.obs)
    state = state.replace(params=params, update=jnp.int32(2))
    state, experience, _ = jax.jit(learner.collect)(state, env_params)
    after, _ = jax.jit(learner.learn)(state, experience, hyperparams, None)

    seen = learner.trajectory(params, experience)
    targets = rule(None, Context(hyperparams, progress=0.5), seen)
    tables = [params["params"][f"{name}_head"]["kernel"] for name in ("policy", "prediction")]
    coefficient = 0.2 if rule is lpg.a2c else 0.0
    expected = tables_after_one_step(tables, experience, targets, coefficient)
    found = after.params["params"]
    np.testing.assert_allclose(found["policy_head"]["kernel"], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        found["prediction_head"]["kernel"], expected[1], rtol=1e-4, atol=1e-5
    )
    # where the agent was, both tables have learned
    visited = np.unique(np.argmax(experience.obs, axis=-1))
    for table, before in zip(found.values(), params["params"].values(), strict=True):
        moved = np.abs(np.asarray(table["kernel"] - before["kernel"])).max(axis=1)
        assert (moved[visited] > 0).all()
        assert not np.delete(moved, visited).any()


def test_a_rule_sees_the_agents_probabilities_and_predictions():
    env, env_params = grid_world(slip_probability=0.3)
    learner = lpg.LPG(CONFIG, env)
    state = jax.jit(learner.init)(KEY, HYPERPARAMS, None, env_params)
    params = drawn(learner.network, state.envs.obs)
    _, experience, sums = jax.jit(learner.collect)(state.replace(params=params), env_params)
    seen, states = learner.trajectory(params, experience), np.argmax(experience.obs, axis=-1)
    policy, prediction = (
        np.asarray(params["params"][f"{name}_head"]["kernel"]) for name in ("policy", "prediction")
    )
    chosen = log_softmax(policy, axis=1)[states, experience.action]
    np.testing.assert_allclose(seen.log_prob, chosen, rtol=1e-5)
    np.testing.assert_allclose(seen.prediction, prediction[states], rtol=1e-5)
    done = np.asarray(seen.terminated | seen.truncated)
    assert done.any()
    within = ~done[:-1]
    np.testing.assert_allclose(
        seen.next_prediction[:-1][within], prediction[states[1:]][within], rtol=1e-5
    )
    ended = seen.next_prediction[seen.terminated]  # the goal itself, not the next episode's start
    np.testing.assert_allclose(ended, np.tile(prediction[8], (len(ended), 1)), rtol=1e-5)
    assert sums.steps == T * N


@pytest.mark.long
def test_lifetimes():
    env, env_params = grid_world(step_reward=-0.1)
    config = lpg.Config(T * N * 40, N, T, shortest_lifetime=0.1)
    learner = lpg.LPG(config, env)
    keys = jax.random.split(KEY, 200)
    init = jax.jit(learner.init)
    states = jax.vmap(lambda key: init(key, HYPERPARAMS, None, env_params))(keys)
    lifetimes = np.asarray(jax.vmap(lambda s: learner.context(s, HYPERPARAMS).num_updates)(states))
    assert lifetimes.min() >= 4
    assert lifetimes.max() <= 40
    # log-uniform: the middle one is the root of the shortest
    assert np.median(lifetimes) == pytest.approx(0.1**0.5 * 40, abs=2)

    def shorter(state):
        return learner.context(state.replace(num_updates=jnp.int32(10)), HYPERPARAMS).num_updates

    np.testing.assert_allclose(jax.vmap(shorter)(states), lifetimes / 4, atol=1)  # of 10, not 40
    whole = lpg.LPG(CONFIG, env)
    everyone = jax.jit(whole.init)(KEY, HYPERPARAMS, None, env_params)
    assert whole.context(everyone, HYPERPARAMS).num_updates == CONFIG.num_updates

    state = init(KEY, HYPERPARAMS, None, env_params).replace(lifetime=jnp.float32(2 / 40))
    update, told = jax.jit(learner.update), []
    params = [state.params]
    for _ in range(4):
        context = learner.context(state, HYPERPARAMS)
        told.append((float(context.progress), int(context.num_updates)))
        state, sums, _ = update(state, HYPERPARAMS, None, env_params)
        params.append(state.params)
        assert sums.steps == T * N  # it acts on
    changes = [
        any(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a != b).any()), *pair)))
        for pair in itertools.pairwise(params)
    ]
    assert changes == [True, True, False, False]
    assert told == [(0.0, 2), (0.5, 2), (1.0, 2), (1.0, 2)]
