from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, envs, ppo
from purerl.parts.evaluation import evaluate
from purerl.types import Context
from tests.purerl import reference, test_ppo
from tests.purerl.parts.test_returns import brute_force_of_all
from tests.purerl.test_ppo import ENV, HYPERPARAMS, KEY, SEEN, Recorder

STEPS, ENVS, SIZE = 8, 4, 3
CONFIG = ppo.Config(
    total_timesteps=4 * STEPS * ENVS,
    num_envs=ENVS,
    num_steps=STEPS,
    update_epochs=3,
    num_minibatches=2,
    hidden_sizes=(3,),
    recurrent_size=SIZE,
    normalize_advantages="none",
)


class Rollouts(test_ppo.Rollouts):
    """Two rollouts in a row, of arbitrary parameters, and the same by an unrolled loop."""

    def __init__(self, **changes):
        super().__init__(replace(CONFIG, **changes))
        exact, memory = reference.to_float64(self.params), np.asarray(self.states[0].envs.memory)
        self.unrolled = []
        for t in self.transitions:
            done = t.terminated | t.truncated
            unrolled = reference.recurrent_forward(exact, t.obs.astype(np.float64), memory, done)
            memory = np.where(done[-1][:, None], 0.0, unrolled[-1][-1])
            self.unrolled.append(unrolled)


SHARED = pytest.param(True, id="shared", marks=pytest.mark.long)


@pytest.fixture(scope="module", params=[pytest.param(False, id="apart"), SHARED])
def rollouts(request):
    return Rollouts(shared_network=request.param)


@pytest.mark.long
def test_memories_and_actions_match_an_unrolled_loop(rollouts):
    for t, (head, _, before, _) in zip(rollouts.transitions, rollouts.unrolled, strict=True):
        np.testing.assert_allclose(t.memory, before, atol=1e-5)
        exact = reference.to_float64(rollouts.params)
        log_prob, _ = reference.log_probs_and_entropy(exact, head.reshape(-1, 2), t.action.ravel())
        np.testing.assert_allclose(t.log_prob.ravel(), log_prob, atol=1e-5)


def test_values_and_targets_match_an_unrolled_loop(rollouts):
    """After a truncation, V(final observation | memory before the reset)."""
    for t, batch, (_, value, _, after) in zip(
        rollouts.transitions, rollouts.batches, rollouts.unrolled, strict=True
    ):
        exact = reference.to_float64(rollouts.params)
        flat = t.final_obs.reshape(1, -1, 2).astype(np.float64), after.reshape(STEPS * ENVS, -1)
        ended = np.zeros((1, STEPS * ENVS), bool)
        _, final, _, _ = reference.recurrent_forward(exact, *flat, ended)
        final = final.reshape(STEPS, ENVS)
        advantage = brute_force_of_all(
            t.reward, value, final, t.terminated, t.truncated, gamma=0.9, lam=0.8
        )
        np.testing.assert_allclose(batch.value, value.ravel(), atol=1e-5)
        np.testing.assert_allclose(batch.advantage, advantage.ravel(), atol=1e-4)
        np.testing.assert_allclose(batch.target, (advantage + value).ravel(), atol=1e-4)
        # the memory matters
        _, forgotten, _, _ = reference.recurrent_forward(exact, flat[0], 0 * flat[1], ended)
        cut = t.truncated & ~t.terminated
        assert np.abs(forgotten.reshape(STEPS, ENVS) - final)[cut].max() > 0.01


@pytest.mark.long
def test_gradient_through_time(rollouts):
    """On two environments' rollouts, from the memory with which the second one began."""
    rng = np.random.default_rng(1)
    chosen = np.array([2, 1])

    def of_chosen(x):
        return x.reshape(STEPS, ENVS, *x.shape[1:])[:, chosen].reshape(-1, *x.shape[1:])

    minibatch = jax.tree.map(of_chosen, rollouts.batches[1])
    noise = rng.normal(size=(3, STEPS * 2)) * 0.3
    transition = minibatch.transition
    log_prob = jnp.float32(transition.log_prob + noise[0])
    minibatch = minibatch._replace(
        transition=transition._replace(log_prob=log_prob),
        value=jnp.float32(minibatch.value + noise[1]),
        target=jnp.float32(minibatch.target + noise[2]),
    )
    start = np.asarray(rollouts.states[1].envs.memory)[chosen]
    assert start.any()
    exact = reference.to_float64(minibatch)
    done = np.asarray(transition.done).reshape(STEPS, 2)
    assert done[:-1].any()

    def forward(params, obs):
        found = reference.recurrent_forward(params, obs.reshape(STEPS, 2, 2), start, done)
        return found[0].reshape(-1, 2), found[1].ravel()

    def loss(params):
        return reference.ppo_loss(
            params, exact, HYPERPARAMS, clip_value=True, standardize=False, forward=forward
        )

    function = jax.jit(jax.value_and_grad(rollouts.learner.loss, has_aux=True))
    arguments = minibatch, Context(HYPERPARAMS), None
    (total, _), grads = function(rollouts.params, *arguments)
    assert total == pytest.approx(loss(reference.to_float64(rollouts.params)), rel=1e-4)
    expected = reference.gradient(rollouts.params, loss)
    jax.tree.map(
        lambda g, e: np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-5), grads, expected
    )
    for leaf in jax.tree.leaves(grads):
        assert np.abs(leaf).max() > 1e-4


@pytest.mark.long
def test_minibatches_are_whole_rollouts_of_some_environments(rollouts):
    learner = Recorder(rollouts.learner.config, ENV)
    batch = rollouts.batches[0]._replace(target=jnp.arange(float(STEPS * ENVS)))
    SEEN.clear()
    jax.jit(learner.learn)(rollouts.states[1], batch, HYPERPARAMS, None)
    jax.effects_barrier()
    seen = np.reshape(SEEN, (3, 2, STEPS, 2))  # epoch, minibatch, step, environment
    step, environment = np.divmod(seen, ENVS)
    np.testing.assert_array_equal(step, np.broadcast_to(np.arange(STEPS)[:, None], seen.shape))
    assert (environment == environment[:, :, :1]).all()
    np.testing.assert_array_equal(np.sort(environment[:, :, 0].reshape(3, -1)), [range(ENVS)] * 3)
    assert len({tuple(order) for order in environment[:, :, 0].reshape(3, -1)}) > 1


def test_acting_step_by_step_matches_an_unrolled_loop(rollouts):
    learner, state = rollouts.learner, rollouts.states[0]
    policy = learner.policy(state)
    memory, obs = acting.begin(learner), rollouts.transitions[0].obs[:, 0]
    exact = reference.to_float64(rollouts.params)
    nothing = np.zeros((STEPS, 1), bool)
    head, _, before, _ = reference.recurrent_forward(
        exact, obs[:, None].astype(float), memory[None], nothing
    )
    act = jax.jit(lambda memory, obs: acting.act(learner, policy, memory, KEY, obs, greedy=True))
    for step in range(STEPS):
        np.testing.assert_allclose(memory, before[step, 0], atol=1e-5)
        action, memory = act(memory, obs[step])
        assert action == head[step, 0].argmax()


@pytest.mark.long
@pytest.mark.parametrize(("recurrent_size", "low", "high"), [(16, 0.95, 1.0), (0, -0.4, 0.4)])
def test_only_a_memory_solves_a_memory_task(recurrent_size, low, high):
    """Reward 1 for what was seen 3 steps ago, otherwise -1: chance is 0."""
    env, env_params = envs.make("MemoryChain-bsuite", memory_length=3)
    config = ppo.Config(24_576, 16, 32, hidden_sizes=(16,), recurrent_size=recurrent_size)
    learner = ppo.PPO(config, env)

    def score(key):
        result = learner.train(key, ppo.Hyperparams(learning_rate=5e-3), None, env_params)
        return evaluate(learner, learner.policy(result.state), key, env_params)

    assert low <= jax.jit(jax.vmap(score))(jax.random.split(KEY, 4)).mean() <= high
