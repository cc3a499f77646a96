import os
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import ppo
from purerl.parts import losses
from purerl.types import Context, EpisodeSums, Transition
from tests.processes import python
from tests.purerl import probes, reference
from tests.purerl.parts.test_returns import brute_force_of_all

KEY = jax.random.key(0)
ENV = probes.Cycle()
CONFIG = ppo.Config(
    total_timesteps=12 * 24,
    num_envs=4,
    num_steps=6,
    update_epochs=3,
    num_minibatches=1,
    hidden_sizes=(3, 3),
)
HYPERPARAMS = ppo.Hyperparams(
    learning_rate=0.03,
    gamma=0.9,
    gae_lambda=0.8,
    entropy_coef=0.1,
    max_grad_norm=0.2,
    adam_epsilon=1e-2,
    vf_coef=0.7,
)


@partial(jax.jit, static_argnums=0)  # equal learners of one environment share a program
def init(learner):
    return learner.init(KEY, HYPERPARAMS, None, learner.env.default_params)


def problem(env, rng, **changes):
    """A learner, arbitrary parameters, and a batch collected by another policy."""
    learner = ppo.PPO(replace(CONFIG, **changes), env, losses.clipped_squared)
    params = reference.drawn(learner.network, jnp.zeros(env.observation_space().shape))
    size = 24
    action_space = env.action_space()
    discrete = hasattr(action_space, "n")
    actions = rng.integers(2, size=size) if discrete else rng.normal(size=(size, 1))
    obs = rng.normal(size=(size, *env.observation_space().shape))
    head, value = reference.forward(reference.to_float64(params), obs)
    log_prob, _ = reference.log_probs_and_entropy(reference.to_float64(params), head, actions)
    transition = Transition(
        obs=obs,
        action=actions,
        log_prob=log_prob + rng.normal(size=size) * 0.3,  # many ratios are beyond the clip
        reward=np.zeros(size),
        terminated=np.zeros(size, bool),
        truncated=np.zeros(size, bool),
        final_obs=obs,
    )
    batch = ppo.Batch(
        transition,
        value=value + rng.normal(size=size) * 0.3,
        advantage=rng.normal(size=size) + 0.5,
        target=value + rng.normal(size=size),
    )
    batch = jax.tree.map(lambda x: jnp.asarray(x, np.float32 if x.dtype == float else None), batch)
    return learner, params, batch


@pytest.mark.parametrize(
    ("env", "changes", "clip_value"),
    [
        (ENV, {}, True),
        (ENV, {"shared_network": True, "normalize_advantages": "none"}, False),
        (probes.TargetAction(), {}, True),
    ],
)
def test_gradient_of_the_loss_and_diagnostics(env, changes, clip_value):
    learner, params, batch = problem(env, np.random.default_rng(1), **changes)
    if not clip_value:
        learner = ppo.PPO(learner.config, env, losses.squared)
    exact = reference.to_float64(batch)

    def loss(params):
        standardize = changes.get("normalize_advantages") != "none"
        return reference.ppo_loss(
            params, exact, HYPERPARAMS, clip_value=clip_value, standardize=standardize
        )

    function = jax.jit(jax.value_and_grad(learner.loss, has_aux=True))
    arguments = params, batch, Context(HYPERPARAMS), None
    (total, metrics), grads = function(*arguments)
    assert total == pytest.approx(loss(reference.to_float64(params)), rel=1e-4)
    expected = reference.gradient(params, loss)
    jax.tree.map(
        lambda g, e: np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-5), grads, expected
    )
    assert 0.1 < metrics["beyond_clip_epsilon"] < 0.9  # the clip is at work, but not everywhere
    for leaf in jax.tree.leaves(grads):
        assert np.abs(leaf).max() > 1e-4

    params, transition = reference.to_float64(params), exact.transition
    head, value = reference.forward(params, transition.obs)
    log_prob, entropy = reference.log_probs_and_entropy(params, head, transition.action)
    log_ratio = log_prob - transition.log_prob
    expected = {
        "entropy": entropy,
        "value_error": np.sqrt(np.mean((value - exact.target) ** 2)),
        "beyond_clip_epsilon": np.mean(np.abs(np.exp(log_ratio) - 1) > 0.2),
        "approximate_kl": np.mean(np.exp(log_ratio) - 1 - log_ratio),
    }
    for name, number in expected.items():
        assert metrics[name] == pytest.approx(number, rel=1e-3), name


def test_learn_is_adam_on_the_clipped_gradient():
    learner, params, batch = problem(ENV, np.random.default_rng(5))
    exact = reference.to_float64(batch)
    state = init(learner).replace(params=params, update=jnp.int32(3))
    after, _ = jax.jit(learner.learn)(state, batch, HYPERPARAMS, None)

    params = reference.to_float64(params)
    adam = optax.chain(optax.clip_by_global_norm(0.2), optax.adam(0.03 * (1 - 3 / 12), eps=1e-2))
    opt_state = adam.init(jax.tree.map(np.float32, params))
    for _ in range(3):  # epochs of one minibatch each: the order does not matter
        grads = reference.gradient(
            params,
            lambda p: reference.ppo_loss(p, exact, HYPERPARAMS, clip_value=True, standardize=True),
        )
        grads = jax.tree.map(np.float32, grads)
        assert optax.tree.norm(grads) > 0.2  # clipping is at work
        updates, opt_state = adam.update(grads, opt_state)
        params = jax.tree.map(np.add, params, updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), after.params, params)
    assert after.update == 4


class Rollouts:
    """Two updates' rollouts in a row on short episodes, with their batches and sums."""

    def __init__(self, config):
        self.learner = ppo.PPO(config, ENV, losses.clipped_squared)
        state = init(self.learner)
        self.params = reference.drawn(self.learner.network, state.envs.obs)
        state = state.replace(params=self.params)
        collect, make_batch = jax.jit(self.learner.collect), jax.jit(self.learner.make_batch)
        self.states, self.transitions, self.sums, self.batches = [state], [], [], []
        for _ in range(2):
            state, transitions, sums = collect(state, ENV.default_params)
            context = self.learner.context(state, HYPERPARAMS)
            state, batch = make_batch(state, transitions, context, None)
            self.states.append(state)
            self.transitions.append(jax.tree.map(np.asarray, transitions))
            self.sums.append(sums)
            self.batches.append(batch)

    def all_transitions(self):
        return jax.tree.map(lambda *x: np.concatenate(x), *self.transitions)


@pytest.fixture(scope="module")
def rollouts():
    return Rollouts(replace(CONFIG, num_steps=16, normalize_advantages="batch"))


def test_rollout_is_a_chain_of_transitions(rollouts):
    t = rollouts.all_transitions()
    done = t.terminated | t.truncated
    assert (t.terminated & ~t.truncated).any()
    assert (~t.terminated & t.truncated).any()
    assert (t.terminated & t.truncated).any()
    np.testing.assert_array_equal(t.obs[0], rollouts.states[0].envs.obs)
    np.testing.assert_array_equal(t.obs[1:][~done[:-1]], t.final_obs[:-1][~done[:-1]])
    np.testing.assert_array_equal(t.obs[1:][done[:-1]][:, 1], 0.0)  # the clock of a new episode
    assert (t.final_obs[..., 1] > 0).all()  # of the old one, not of the reset
    np.testing.assert_array_equal(t.terminated, t.final_obs[..., 0] > 0.84)
    np.testing.assert_array_equal(t.truncated, t.final_obs[..., 1] >= 4)
    np.testing.assert_allclose(t.reward, t.final_obs[..., 0] + t.action, rtol=1e-5)
    params = reference.to_float64(rollouts.states[0].params)
    head, _ = reference.forward(params, t.obs.reshape(-1, 2))
    log_prob, _ = reference.log_probs_and_entropy(params, head, t.action.ravel())
    np.testing.assert_allclose(t.log_prob.ravel(), log_prob, rtol=1e-4)
    # all environments and steps draw for themselves
    assert np.unique(t.final_obs[..., 0]).size == t.reward.size


@pytest.mark.smoke
def test_episode_sums(rollouts):
    """Over both updates: what belongs to finished episodes, and what to the unfinished ones."""
    t, total = rollouts.all_transitions(), jax.tree.map(lambda a, b: a + b, *rollouts.sums)
    done, unfinished = t.terminated | t.truncated, rollouts.states[-1].envs.unfinished
    last = [np.flatnonzero(ends)[-1] + 1 for ends in done.T]
    finished = [rewards[:end].sum() for rewards, end in zip(t.reward.T, last, strict=True)]
    expected = EpisodeSums(
        episodes=done.sum(), returns=sum(finished), lengths=sum(last), rewards=t.reward.sum(),
        steps=2 * 64,
    )  # fmt: skip
    np.testing.assert_allclose(np.array(total), np.array(expected), rtol=1e-4)
    np.testing.assert_allclose(unfinished.returns, t.reward.sum(0) - finished, atol=1e-4)
    np.testing.assert_array_equal(unfinished.lengths, 32 - np.array(last))


def test_batch_holds_standardized_advantages_and_targets(rollouts):
    t, batch = rollouts.transitions[1], rollouts.batches[1]
    params = reference.to_float64(rollouts.states[0].params)
    _, value = reference.forward(params, np.asarray(t.obs, np.float64).reshape(-1, 2))
    _, final = reference.forward(params, np.asarray(t.final_obs, np.float64).reshape(-1, 2))
    value, final = value.reshape(16, 4), final.reshape(16, 4)
    advantage = brute_force_of_all(
        t.reward, value, final, t.terminated, t.truncated, gamma=0.9, lam=0.8
    )
    target = advantage + value
    standard = (advantage - advantage.mean()) / advantage.std()
    for actual, expected in [
        (batch.advantage, standard),
        (batch.target, target),
        (batch.value, value),
        (batch.transition.log_prob, t.log_prob),
        (batch.transition.action, t.action),
    ]:
        np.testing.assert_allclose(actual, np.ravel(expected), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(batch.transition.obs, t.obs.reshape(-1, 2))


def test_observations_and_rewards_are_normalized():
    """By what was seen before (observations) and up to now (rewards), all of it."""
    settings = {"normalize_observations": True, "normalize_rewards": True}
    run = Rollouts(replace(CONFIG, num_steps=16, normalize_advantages="none", **settings))
    raw = [np.asarray(t.obs, np.float64) for t in run.transitions]
    np.testing.assert_allclose(run.batches[0].transition.obs, raw[0].reshape(-1, 2), rtol=1e-5)
    mean, std = raw[0].mean((0, 1)), raw[0].std((0, 1))
    expected = (raw[1] - mean) / std
    seen = run.batches[1].transition.obs
    np.testing.assert_allclose(seen, expected.reshape(-1, 2), rtol=1e-3, atol=1e-4)
    statistics = run.states[-1].normalizer.observations
    np.testing.assert_allclose(statistics.mean, np.concatenate(raw).mean((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(statistics.variance, np.concatenate(raw).var((0, 1)), rtol=1e-4)

    running, returns = np.zeros(4), []
    for t in run.transitions:
        for step in range(16):
            running = t.reward[step] + 0.9 * running
            returns.append(running)
            running = np.where(t.terminated[step] | t.truncated[step], 0.0, running)
    variance = np.array(returns).var()
    assert run.states[-1].normalizer.returns.variance == pytest.approx(variance, rel=1e-4)
    np.testing.assert_allclose(run.states[-1].normalizer.running_return, running, atol=1e-4)

    # The rewards behind the second batch's advantages, from the last step of every environment.
    t, batch = run.transitions[1], run.batches[1]
    params = reference.to_float64(run.states[0].params)
    _, final = reference.forward(params, (t.final_obs[-1].astype(np.float64) - mean) / std)
    bootstrap = 0.9 * np.where(t.terminated[-1], 0.0, final)
    reward = batch.target.reshape(16, 4)[-1] - bootstrap
    np.testing.assert_allclose(reward, t.reward[-1] / np.sqrt(variance), rtol=1e-3, atol=1e-4)
    # acting uses the same statistics: a policy is saved with them
    policy = run.learner.policy(run.states[-1])
    assert policy.observation_statistics is run.states[-1].normalizer.observations


class Recorder(ppo.PPO):
    """Tells the host which samples each gradient step is given."""

    def loss(self, params, batch, context, meta_params):
        jax.debug.callback(SEEN.append, batch.target, ordered=True)
        return 0.0 * jnp.sum(params["params"]["value_head"]["bias"]), {}


SEEN: list[np.ndarray] = []


def test_every_epoch_uses_every_sample_once_in_a_new_order():
    learner = Recorder(replace(CONFIG, num_minibatches=4), ENV)
    other, _, batch = problem(ENV, np.random.default_rng(0))
    batch = batch._replace(target=jnp.arange(24.0))
    SEEN.clear()
    jax.jit(learner.learn)(init(other), batch, HYPERPARAMS, None)
    jax.effects_barrier()
    epochs = np.reshape(SEEN, (3, 24))
    np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(24.0), (3, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert np.shape(SEEN) == (12, 6)


NAMES = "progress", "frames", "num_updates", "epoch", "minibatch", "num_minibatches"
CONTEXTS: dict[str, list[tuple[float, ...]]] = {"value_loss": [], "make_optimizer": []}


def record(slot, context):
    numbers = [getattr(context, name) for name in NAMES]
    numbers.append(jax.random.uniform(context.key))  # the same one for all samples
    jax.debug.callback(lambda *row: CONTEXTS[slot].append(row), *numbers, ordered=True)


def value_loss(meta_params, context, *scalars):
    record("value_loss", context)
    return losses.squared(None, context, *scalars)


def make_optimizer(meta_params, context):
    def update(updates, state, params=None, *, context):
        record("make_optimizer", context)
        return updates, state

    return optax.GradientTransformationExtraArgs(lambda params: (), update)


def test_every_slot_sees_the_context_of_its_gradient_step():
    """Four updates of three epochs of two minibatches."""
    config = replace(CONFIG, num_minibatches=2, total_timesteps=4 * 24 + 5)
    learner = ppo.PPO(config, ENV, value_loss, make_optimizer=make_optimizer)
    other, params, batch = problem(ENV, np.random.default_rng(0))
    state, learn = init(other).replace(params=params, opt_state=()), jax.jit(learner.learn)
    for _ in range(4):
        state, _ = learn(state, batch, HYPERPARAMS, None)
    jax.effects_barrier()
    updates, epochs, halves = (each.ravel() for each in np.indices((4, 3, 2)))
    expected = [updates / 4, 24 * updates, 0 * updates + 4, epochs / 3, halves / 2, 0 * updates + 2]
    for rows in CONTEXTS.values():
        np.testing.assert_allclose(np.array(rows)[:, :-1].T, expected, rtol=1e-6)
        assert len({row[-1].item() for row in rows}) == 24  # a key for every gradient step


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


@pytest.mark.long
def test_a_population_does_not_deadlock():
    """64 agents on one multi-threaded device; the limit is far beyond what it takes."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    cores = sorted(os.sched_getaffinity(0))[:2]  # few cores are where it would happen
    limit = f"import os; os.sched_setaffinity(0, {cores})\n"
    process = python("-c", limit + POPULATION, env=environment)
    assert process.returncode == 0, process.stderr
    assert "finished (64, 4)" in process.stdout


@pytest.mark.long
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


@pytest.mark.long
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
