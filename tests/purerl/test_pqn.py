"""The pieces of PQN against independent computations."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import pqn
from purerl.fast import trace_for
from purerl.types import Estimates
from tests.purerl import probes, reference
from tests.purerl.parts.test_returns import brute_force_of_all
from tests.purerl.reference import q_values

KEY = jax.random.key(0)
CONFIG = pqn.Config(
    10 * 64, num_envs=4, num_steps=16, update_epochs=3, num_minibatches=1, hidden_sizes=(3, 4),
    activation="tanh",
)  # fmt: skip
HYPERPARAMS = pqn.Hyperparams(
    learning_rate=0.03, gamma=0.9, gae_lambda=0.8, max_grad_norm=0.01, epsilon_start=0.5
)
ENV = probes.Cycle()
PARAMS = ENV.default_params


def give_ratios(meta_params, context, rollout):
    return Estimates(rollout.value, rollout.ratio)


class Rollout:
    """A rollout on short episodes by a network with arbitrary parameters, and its batch."""

    def __init__(self):
        self.learner = pqn.PQN(CONFIG, ENV)
        state = self.learner.init(KEY, HYPERPARAMS, None, PARAMS)
        params = reference.drawn(self.learner.network, state.envs.obs)
        self.state, transitions, _ = jax.jit(self.learner.collect)(
            state.replace(params=params), HYPERPARAMS, PARAMS
        )
        self.context = context = self.learner.context(state, HYPERPARAMS)
        self.batch, ratios = (
            jax.jit(each.make_batch)(self.state, transitions, context, None)
            for each in (self.learner, pqn.PQN(CONFIG, ENV, targets=give_ratios))
        )
        self.ratio = ratios.target.reshape(16, 4)
        self.transitions = jax.tree.map(np.asarray, transitions)

    def values(self, obs):
        params = reference.to_float64(self.state.params)
        return q_values(params, obs.reshape(-1, 2)).reshape(16, 4, 2)


@pytest.fixture(scope="module")
def rollout():
    return Rollout()


def test_actions_are_epsilon_greedy(rollout):
    t = rollout.transitions
    greedy = t.action == rollout.values(t.obs).argmax(-1)
    assert abs(greedy.mean() - 0.75) < 0.15  # half of the actions are random, half of them right
    np.testing.assert_allclose(np.exp(t.log_prob), np.where(greedy, 0.75, 0.25), rtol=1e-5)
    np.testing.assert_allclose(rollout.ratio, np.where(greedy, 1 / 0.75, 0.0), rtol=1e-5)


def test_targets(rollout):
    t = rollout.transitions
    assert (t.truncated & ~t.terminated).any()
    assert t.terminated.any()
    targets = brute_force_of_all(
        0.1 * t.reward, np.zeros((16, 4)), rollout.values(t.final_obs).max(-1),
        t.terminated, t.truncated, gamma=0.9, lam=0.8,
    )  # fmt: skip
    np.testing.assert_allclose(rollout.batch.target, targets.ravel(), rtol=1e-4, atol=1e-5)
    chosen = np.take_along_axis(rollout.values(t.obs), t.action[..., None], -1)
    np.testing.assert_allclose(rollout.batch.old_prediction, chosen.ravel(), rtol=1e-4, atol=1e-5)
    for actual, expected in ((rollout.batch.obs, t.obs), (rollout.batch.action, t.action)):
        np.testing.assert_array_equal(actual, expected.reshape(actual.shape))
    predictions, targets = jax.jit(rollout.learner.value_targets)(
        rollout.state, HYPERPARAMS, PARAMS
    )
    assert predictions.shape == targets.shape == (64,)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_targets_of_agents_of_which_one_is_never_truncated(rollout, platform):
    other = rollout.transitions._replace(truncated=np.zeros((16, 4), bool))
    both = jax.tree.map(lambda *leaves: np.stack(leaves), rollout.transitions, other)

    def targets(transitions):
        learner = pqn.PQN(CONFIG, ENV)  # traced for this platform
        return learner.make_batch(rollout.state, transitions, rollout.context, None).target

    trace_for(platform)
    found = jax.jit(jax.vmap(targets))(both)
    trace_for(None)
    np.testing.assert_allclose(found[0], rollout.batch.target, rtol=1e-4, atol=1e-5)
    assert not np.allclose(found[0], found[1], rtol=1e-2)


def test_learn_is_radam_on_the_clipped_gradient(rollout):
    batch, params = reference.to_float64(rollout.batch), reference.to_float64(rollout.state.params)
    rate = 0.03 * (1 - 4 / 10)  # annealed
    optimizer = optax.chain(optax.clip_by_global_norm(0.01), optax.radam(rate))
    opt_state, losses = optimizer.init(rollout.state.params), []

    def errors(params):
        return q_values(params, batch.obs)[np.arange(64), batch.action] - batch.target

    for _ in range(3):  # epochs of one minibatch each: the order does not matter
        losses.append(np.mean(errors(params) ** 2) / 2)
        grads = reference.gradient(params, lambda each: np.mean(errors(each) ** 2) / 2)
        grads = jax.tree.map(np.float32, grads)
        assert optax.tree.norm(grads) > 0.01  # clipping is at work
        updates, opt_state = optimizer.update(grads, opt_state)
        params = jax.tree.map(np.add, params, updates)
    state = rollout.state.replace(update=jnp.int32(4))
    after, metrics = jax.jit(rollout.learner.learn)(state, rollout.batch, HYPERPARAMS, None)
    chex.assert_trees_all_close(after.params, params, rtol=1e-4, atol=1e-6)
    assert after.update == 5
    assert metrics["value_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    roots = np.sqrt(2 * np.array(losses))
    assert metrics["value_error"] == pytest.approx(np.mean(roots), rel=1e-4)


def test_exploration(rollout):
    """It falls for a fifth of ten updates by default."""
    collect = jax.jit(rollout.learner.collect)
    for steps, expected in ((None, [1.0, 0.7, 0.4, 0.4]), (4 * 64.0, [1.0, 0.85, 0.7, 0.55])):
        hyperparams = pqn.Hyperparams(epsilon_end=0.4, epsilon_decay_steps=steps)
        for number, epsilon in enumerate(expected):
            state = rollout.state.replace(update=jnp.int32(number))
            state, *_ = collect(state, hyperparams, PARAMS)
            policy = rollout.learner.policy(state)
            assert policy.epsilon == pytest.approx(epsilon, rel=1e-5)
