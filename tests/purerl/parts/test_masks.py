"""Masks of legal actions in acting and learning, against hand calculations."""

from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnax.environments import spaces

from purerl import acting, dqn, envs, lpg, ppo, q_learning
from purerl.envs.features import Features
from purerl.envs.gymnasium_adapter import GymnasiumEnv
from purerl.envs.state_index import StateIndex
from purerl.envs.talking import Talking, TalkParams
from purerl.parts import evaluation, masks, policies
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium
from purerl.types import Context
from tests.purerl import probes, reference

KEY = jax.random.key(0)
SIZE = 4


class Gated(probes.Cycle):
    """Some actions are legal, others in every state; what is seen is the mask.

    An illegal action costs 1000, a legal one pays its number. Episodes end in both ways.
    """

    nothing = 0
    """tenths of the states forbid everything"""

    def legal_actions(self, state, params):
        number, actions = jnp.floor(jnp.abs(1e4 * state.x)).astype(jnp.int32), jnp.arange(SIZE)
        some = ((number // 2**actions) % 2 == 1) | (actions == number // 16 % SIZE)
        return some & (number % 10 >= self.nothing)

    def action_space(self, params=None):
        return spaces.Discrete(SIZE)

    num_actions = SIZE

    def observation_space(self, params=None):
        return spaces.Box(-10.0, 10.0, (SIZE,))

    def show(self, state):
        return self.legal_actions(state, None).astype(jnp.float32)

    def step_env(self, key, state, action, params):
        legal = self.legal_actions(state, params)
        obs, state, _, terminated, info = super().step_env(key, state, action, params)
        reward = jnp.where(legal[action] | ~legal.any(), action.astype(jnp.float32), -1000.0)
        info = {**info, "action_mask": self.legal_actions(state, params)}
        return obs, state, reward, terminated, info

    def render(self, state, params):
        return np.asarray(self.legal_actions(state, params), np.uint8)


class Blocked(Gated):
    """At times nothing is legal, but not at first."""

    nothing = 3

    def reset_env(self, key, params):
        state = probes.State(x=jnp.float32(0.00075), time=jnp.int32(0))
        return self.show(state), state


class NeverLegal(Gated):
    nothing = 10


class Silent(Gated):
    """Tells no mask in its info."""

    def step_env(self, key, state, action, params):
        *outputs, _ = super().step_env(key, state, action, params)
        return *outputs, {}


class MaskedNumbers(Gated):
    def action_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (1,))


ENV = Gated()
PARAMS = ENV.default_params
PPO_CONFIG = ppo.Config(total_timesteps=1536, num_envs=4, num_steps=64, hidden_sizes=(8,))
DQN_CONFIG = dqn.Config(
    total_timesteps=800,
    num_envs=4,
    num_steps=40,
    train_interval=8,
    batch_size=32,
    buffer_size=400,
    learning_starts=80,
    hidden_sizes=(8,),
    activation="tanh",
)


def test_a_distribution_over_legal_actions():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, SIZE)).astype(np.float32) * 3
    legal = rng.random((6, SIZE)) < 0.5
    legal[:, 2] = True
    legal[0] = [False, False, True, False]
    policy = policies.Categorical(jnp.asarray(logits)).among(jnp.asarray(legal))
    p = np.exp(logits.astype(np.float64)) * legal
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.log_prob(jnp.full(6, 2)), np.log(p[:, 2]), rtol=1e-4)
    np.testing.assert_allclose(policy.entropy(), scipy.stats.entropy(p, axis=1), atol=1e-5)
    np.testing.assert_array_equal(policy.mode(KEY), p.argmax(axis=1))
    sample = np.asarray(jax.vmap(policy.sample)(jax.random.split(KEY, 4000)))
    frequency = np.stack([(sample == k).mean(0) for k in range(SIZE)], axis=-1)
    assert np.abs(frequency - p).max() < 5 * 0.5 / np.sqrt(4000)
    assert (frequency[~legal] == 0).all()


def test_gradients_do_not_reach_illegal_actions():
    legal = np.array([True, False, True, False])

    @jax.jit
    @jax.grad
    def gradient(logits, size):
        policy = policies.Categorical(size * logits).among(legal)
        return policy.entropy() + policy.log_prob(jnp.int32(2))

    for size in (1.0, 1e4, 1e30):
        found = np.asarray(gradient(jnp.array([0.3, 5.0, 0.1, -2.0]), size))
        assert np.isfinite(found).all()
        assert (found[~legal] == 0).all()


def test_epsilon_greedy_among_legal_actions():
    count = 30_000
    legal = jnp.tile(jnp.array([True, False, True, True]), (count, 1))
    values = policies.ActionValues(jnp.tile(jnp.array([0.0, 9.0, 1.0, 2.0]), (count, 1)), legal)
    assert (values.best() == 3).all()
    np.testing.assert_array_equal(values.of(jnp.ones(count, jnp.int32)), 9.0)
    for epsilon in (0.0, 0.3, 1.0):
        action = np.asarray(values.epsilon_greedy(KEY, jnp.float32(epsilon)))
        expected = np.array([epsilon / 3, 0.0, epsilon / 3, 1 - epsilon * 2 / 3])
        frequency = np.bincount(action, minlength=SIZE) / count
        assert np.abs(frequency - expected).max() < 5 * 0.5 / np.sqrt(count)
        assert frequency[1] == 0


@pytest.mark.parametrize("value", [jnp.nan, -jnp.inf])
def test_a_network_that_diverged_still_acts_legally(value):
    legal = jnp.array([False, False, True, False])
    values = policies.ActionValues(jnp.full(SIZE, value), legal)
    assert values.best() == 2
    assert policies.EpsilonGreedy(values, jnp.float32(1.0)).mode(KEY) == 2
    assert values.epsilon_greedy(KEY, jnp.float32(1.0)) == 2


@pytest.fixture(scope="module")
def ppo_agent():
    learner = ppo.PPO(PPO_CONFIG, ENV)
    result = jax.jit(learner.train)(KEY, ppo.Hyperparams(learning_rate=0.01), None, PARAMS)
    return learner, result


@pytest.fixture(scope="module")
def dqn_agent():
    learner = dqn.DQN(DQN_CONFIG, ENV)
    result = jax.jit(learner.train)(KEY, dqn.Hyperparams(learning_rate=0.01), None, PARAMS)
    return learner, result


@pytest.fixture(params=["ppo", "dqn"])
def agent(request):
    return request.getfixturevalue(f"{request.param}_agent")


@pytest.mark.long
def test_agents_act_legally_and_learn_the_best_action(agent):
    """The best legal action is the one with the largest number."""
    learner, result = agent
    rewards = np.asarray(result.episodes.rewards)
    assert (rewards > 0).all()  # a single illegal action would outweigh the others
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.state.params))
    policy = learner.policy(result.state)
    for greedy in (True, False):
        returns = evaluation.evaluate(learner, policy, KEY, PARAMS, greedy=greedy)
        assert (returns >= 0).all()
        assert returns.sum() > 0

    some = np.array(list(np.ndindex(*[2] * SIZE)), bool)[1:]

    def act(legal):
        obs = legal.astype(jnp.float32)
        return acting.act(learner, policy, None, KEY, obs, greedy=True, legal=legal)[0]

    best = SIZE - 1 - some[:, ::-1].argmax(axis=1)
    assert np.mean(np.asarray(jax.vmap(act)(jnp.asarray(some))) == best) > 0.7


def test_ppo_learns_from_the_restricted_policy():
    """Log-probabilities and entropy of a rollout are those of a softmax over legal actions."""
    learner = ppo.PPO(PPO_CONFIG, ENV)
    state = jax.jit(learner.init)(KEY, ppo.Hyperparams(), None, PARAMS)
    params = reference.drawn(learner.network, state.envs.obs)

    @jax.jit
    def rollout(before):
        state, transitions, _ = learner.collect(before, PARAMS)
        state, batch = learner.make_batch(state, transitions, ppo.Hyperparams())
        arguments = before.params, batch, Context(ppo.Hyperparams()), None
        gradient, metrics = jax.grad(learner.loss, has_aux=True)(*arguments)
        policy, _ = learner.replay(state.params, batch)
        now = policy.log_prob(batch.transition.action)
        return transitions, batch, now, gradient, metrics

    found = jax.device_get(rollout(state.replace(params=params)))
    transitions, batch, now, gradient, metrics = found
    legal, action = np.asarray(transitions.legal), np.asarray(transitions.action)
    np.testing.assert_array_equal(legal, transitions.obs > 0)
    assert np.take_along_axis(legal, action[..., None], axis=-1).all()

    exact = reference.to_float64(batch)
    head, _ = reference.forward(reference.to_float64(params), exact.transition.obs)
    p = np.exp(head) * batch.transition.legal
    p /= p.sum(axis=1, keepdims=True)
    log_prob = np.log(p[np.arange(len(p)), exact.transition.action])
    np.testing.assert_allclose(batch.transition.log_prob, log_prob, atol=1e-4)
    np.testing.assert_allclose(now, log_prob, atol=1e-4)
    assert metrics["entropy"] == pytest.approx(scipy.stats.entropy(p, axis=1).mean(), rel=1e-3)
    assert metrics["approximate_kl"] == pytest.approx(0.0, abs=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.long
@pytest.mark.parametrize("double", [False, True])
def test_dqn_bootstraps_from_legal_actions(dqn_agent, double):
    """The target's maximum is over the actions that are legal where the step led to."""
    learner, result = dqn_agent
    ring = jax.device_get(result.state.ring)
    np.testing.assert_array_equal(ring.final_legal, ring.final_obs > 0)
    assert (ring.obs[np.arange(len(ring.obs)), ring.action] == 1).all()
    ends = ring.truncated & ~ring.terminated
    assert ends.sum() > 10  # the mask there is of the last state, not of the next episode's first

    learner = dqn.DQN(dqn.Config(**{**vars(DQN_CONFIG), "double": double}), ENV)
    draw = partial(reference.drawn, learner.network, result.state.envs.obs)
    state = result.state.replace(params=draw(seed=0), target_params=draw(seed=1))
    batch, rows = jax.jit(learner.make_batch)(
        state, KEY, learner.context(state, dqn.Hyperparams(gamma=0.9))
    )
    rows = np.asarray(rows)

    def q_values(params, obs):
        layers = reference.to_float64(params)["params"]
        x = np.tanh(reference.dense(layers["torso"]["Dense_0"], np.asarray(obs, np.float64)))
        return reference.dense(layers["action_head"], x)

    final_obs, legal = ring.final_obs[rows], ring.final_legal[rows]
    values = q_values(state.target_params, final_obs)
    chooser = q_values(state.params, final_obs) if double else values
    chosen = np.where(legal, chooser, -np.inf).argmax(axis=1)
    assert (chosen != chooser.argmax(axis=1)).sum() > 5  # the masks matter
    bootstrap = np.where(ring.terminated[rows], 0.0, 0.9 * values[np.arange(len(rows)), chosen])
    np.testing.assert_allclose(batch.target, ring.reward[rows] + bootstrap, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(("module", "config"), [(ppo, PPO_CONFIG), (dqn, DQN_CONFIG)])
def test_all_actions_are_legal_if_none_is(module, config):
    """Some states forbid everything, as the ends of games do: numbers stay finite."""
    train = module.make_train(config, Blocked())
    result = jax.jit(train)(KEY, module.Hyperparams(), None, PARAMS)
    for leaf in jax.tree.leaves((result.state.params, result.metrics)):
        assert np.isfinite(leaf).all()
    assert (np.asarray(result.episodes.rewards) >= 0).all()
    np.testing.assert_array_equal(masks.usable(jnp.zeros(3, bool)), True)
    np.testing.assert_array_equal(masks.usable(jnp.arange(3) == 1), [False, True, False])


def test_an_environment_without_masks_needs_no_hash():
    class Equal(probes.Cycle):
        def __eq__(self, other):
            return isinstance(other, Equal)

    ppo.PPO(PPO_CONFIG, Equal())


def test_unsupported_masks_are_refused():
    refused = {
        NeverLegal(): "NeverLegal: its mask of legal actions forbids all of them at first",
        MaskedNumbers(): "MaskedNumbers: masks of legal actions need discrete actions",
        Silent(): r"info\['action_mask'\] of its steps must be bool\[4\], but is missing",
    }
    for env, message in refused.items():
        for make in (lambda env: ppo.PPO(PPO_CONFIG, env), lambda env: dqn.DQN(DQN_CONFIG, env)):
            with pytest.raises(ValueError, match=f"{message}$|discrete action space"):
                make(env)
    with pytest.raises(ValueError, match="Gated has illegal actions, which LPG would take; PPO"):
        lpg.LPG(lpg.Config(), ENV)
    tabular = StateIndex(ENV, 16, lambda obs: jnp.int32(obs[0]))
    with pytest.raises(ValueError, match="Gated has illegal actions, which Q-learning would take"):
        q_learning.QLearning(q_learning.Config(), tabular)


def test_adapters_pass_masks_on():
    _, state = ENV.reset(KEY, PARAMS)
    mask = ENV.legal_actions(state, PARAMS)
    talk = Talking(ENV, lambda _, obs: obs[:1], 1)
    index = StateIndex(ENV, 16, lambda obs: jnp.int32(obs[0]))
    for env, params in [
        (Features(ENV, flat=True), PARAMS),
        (index, PARAMS),
        (talk, TalkParams(PARAMS, None)),
        (Features(talk, flat=True), TalkParams(PARAMS, None)),
    ]:
        np.testing.assert_array_equal(env.legal_actions(state, params), mask)
        *_, info = env.step(KEY, state, jnp.int32(0), params)
        assert info["action_mask"].shape == (SIZE,)
    assert Features(probes.Cycle(), flat=True).legal_actions is None
    assert masks.of_state(Features(probes.Cycle(), flat=True), state, PARAMS) is None


def test_random_play_is_legal():
    _, state = ENV.reset(KEY, PARAMS)
    state = state.replace(x=jnp.float32(0.00135))
    legal = np.asarray(ENV.legal_actions(state, PARAMS))
    assert 1 < legal.sum() < SIZE
    keys = jax.random.split(KEY, 4000)
    action = jax.jit(jax.vmap(lambda key: masks.draw(ENV, key, state, PARAMS)))(keys)
    frequency = np.bincount(action, minlength=SIZE) / 4000
    assert np.abs(frequency - legal / legal.sum()).max() < 5 * 0.5 / np.sqrt(4000)
    assert (frequency[~legal] == 0).all()
    env, params = envs.make("CartPole-v1")
    _, state = env.reset(KEY, params)
    assert masks.draw(env, KEY, state, params) == env.action_space(params).sample(KEY)


@pytest.mark.long
def test_masks_of_gymnasium_are_used(agent):
    learner, result = agent
    policy = learner.policy(result.state)
    gymnasium.register("MaskedProbe-v0", lambda: GymnasiumEnv(ENV), disable_env_checker=True)
    try:
        returns = evaluate_in_gymnasium(learner, policy, "MaskedProbe-v0", num_episodes=5)
        assert (returns >= 0).all()
    finally:
        del gymnasium.registry["MaskedProbe-v0"]
    with pytest.raises(ValueError, match="CartPole-v1 has no action_mask"):
        evaluate_in_gymnasium(learner, policy, "CartPole-v1", num_episodes=1)
