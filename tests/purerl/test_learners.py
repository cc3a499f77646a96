"""Guarantees of every learner: one agent or many, at once or in pieces, compiled once."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, dqn, envs, lpg, ppo, pqn, q_learning, sac
from purerl.parts import losses
from purerl.parts.evaluation import STREAM, GreedyEvaluations, time_limit
from purerl.types import TrainResult

pytestmark = pytest.mark.long

KEYS = jax.random.split(jax.random.key(0), 3)
LEARNERS = {
    "ppo": (
        ppo.PPO,
        ppo.Config(
            total_timesteps=4 * 32, num_envs=4, num_steps=8, update_epochs=2, num_minibatches=2,
            hidden_sizes=(8,), normalize_observations=True, normalize_rewards=True,
        ),
        ppo.Hyperparams(learning_rate=3e-3),
    ),
    "dqn": (
        dqn.DQN,
        dqn.Config(
            total_timesteps=4 * 32, num_envs=4, num_steps=8, train_interval=8, gradient_steps=2,
            batch_size=16, buffer_size=64, learning_starts=40, target_interval=24, double=True,
            n_step=2, hidden_sizes=(8,),
        ),
        dqn.Hyperparams(learning_rate=3e-3, epsilon_end=0.3),
    ),
    "pqn": (
        pqn.PQN,
        pqn.Config(4 * 32, 4, 8, update_epochs=2, num_minibatches=2, hidden_sizes=(8,)),
        pqn.Hyperparams(learning_rate=3e-3, epsilon_end=0.3),
    ),
    "q_learning": (
        q_learning.QLearning,
        q_learning.Config(total_timesteps=4 * 32, num_steps=32),
        q_learning.Hyperparams(epsilon_start=0.8, epsilon_end=0.3, initial_value=0.5),
    ),
    "lpg": (
        lpg.LPG,
        lpg.Config(total_timesteps=4 * 32, num_envs=4, num_steps=8, hidden_sizes=(8,)),
        lpg.Hyperparams(),
    ),
    "sac": (
        sac.SAC,
        sac.Config(
            total_timesteps=4 * 32, num_envs=4, num_steps=8, train_interval=8, gradient_steps=2,
            batch_size=16, buffer_size=64, learning_starts=40, hidden_sizes=(8,),
        ),
        sac.Hyperparams(),
    ),
}  # fmt: skip


class Case:
    """A learner of four updates with 32 steps each, its functions compiled once."""

    def __init__(self, name):
        make, self.config, self.hyperparams = LEARNERS[name]
        if name == "q_learning":
            options = {"env": "GridWorld", "observations": "index", "size": 3}
            changes = {"goal_reward": 5.0, "max_steps_in_episode": 7}
        else:
            env, gravity = ("Pendulum-v1", "g") if name == "sac" else ("CartPole-v1", "gravity")
            options, changes = {"env": env}, {gravity: 5.0, "max_steps_in_episode": 7}
        self.env, self.env_params = envs.make(**options, max_steps_in_episode=12)
        self.other_env_params = envs.make(**options, **changes)[1]
        self.traces = []
        self.make = partial(make, env=self.env)
        slot = self.scaled_rule if name == "lpg" else self.scaled_loss
        self.slot = {"update_rule" if name == "lpg" else "value_loss": slot}
        self.learner = self.make(self.config, **self.slot)
        self.arguments = self.hyperparams, {"scale": 1.0}, self.env_params
        self.init, self.update = jax.jit(self.learner.init), jax.jit(self.learner.update)
        self.train = jax.jit(self.train_for)
        self.train_all = jax.jit(jax.vmap(self.train_at, in_axes=(0, 0, 0)))

    def train_for(self, length, key, *arguments):
        """Train for a traced number of updates, with evaluations."""
        limit = time_limit(self.env, self.env_params)
        planned = GreedyEvaluations(times=3, episodes=2, max_steps=limit)
        return self.learner.train(key, *arguments, num_updates=length, evaluations=planned)

    def train_at(self, length, key, rate):
        hyperparams = self.hyperparams.replace(learning_rate=rate)
        return self.learner.train(key, hyperparams, *self.arguments[1:], num_updates=length)

    def scaled_loss(self, meta_params, *arguments):
        self.traces.append(1)  # runs when traced, not when compiled code runs
        return meta_params["scale"] * losses.squared(meta_params, *arguments)

    def scaled_rule(self, meta_params, *arguments):
        self.traces.append(1)
        targets = lpg.a2c(meta_params, *arguments)
        return targets._replace(policy=meta_params["scale"] * targets.policy)

    def run_updates(self, state, count):
        outputs = []
        for _ in range(count):
            state, *output = self.update(state, *self.arguments)
            outputs.append(tuple(output))
        return state, outputs

    def policy_bytes(self, state):
        return b"".join(leaf.tobytes() for leaf in numbers(self.learner.policy(state)))


@pytest.fixture(scope="module", params=LEARNERS)
def case(request):
    return Case(request.param)


def numbers(tree):
    return [
        np.asarray(jax.random.key_data(leaf))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else np.asarray(leaf)
        for leaf in jax.tree.leaves(tree)
    ]


def assert_same(first, second, **tolerance):
    exactly = partial(np.testing.assert_array_equal, strict=True)
    compare = partial(np.testing.assert_allclose, **tolerance) if tolerance else exactly
    for a, b in zip(numbers(first), numbers(second), strict=True):
        compare(a, b)


def agent_of(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def test_train_is_init_and_updates(case):
    result = case.train(4, KEYS[0], *case.arguments)
    assert_same(result, case.train(4, KEYS[0], *case.arguments))
    other = case.train(4, KEYS[1], *case.arguments)
    assert case.policy_bytes(result.state) != case.policy_bytes(other.state)
    state, outputs = case.run_updates(case.init(KEYS[0], *case.arguments), 4)
    episodes, metrics = jax.tree.map(lambda *x: jnp.stack(x), *outputs)
    state = state.replace(num_updates=result.state.num_updates)
    expected = TrainResult(state, episodes, metrics, result.evaluations)
    assert_same(result, expected, rtol=1e-4, atol=1e-5)
    for leaf in jax.tree.leaves((result.episodes, result.metrics)):
        assert leaf.shape == (4,)
        assert leaf.dtype == jnp.float32
        assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(result.episodes.steps, 32.0)


def test_agents_in_a_batch_are_agents_alone(case):
    """Also with lengths of their own: they are at different points of their training."""
    rates, lengths = jnp.array([3e-3, 1e-2, 1e-1]), jnp.array([4, 2, 3])
    together = case.train_all(lengths, KEYS, rates)
    for index, (length, key, rate) in enumerate(zip(lengths, KEYS, rates, strict=True)):
        hyperparams = case.hyperparams.replace(learning_rate=float(rate))
        alone = case.train(int(length), key, hyperparams, *case.arguments[1:])
        alone = alone.replace(evaluations=None)
        assert_same(agent_of(together, index), alone, rtol=2e-3, atol=2e-4)
    another = case.train_all(lengths.at[1].set(4), KEYS.at[1].set(KEYS[0]), rates.at[1].set(1.0))
    others = jnp.array([0, 2])
    assert_same(agent_of(another, others), agent_of(together, others))
    policies = [case.policy_bytes(agent_of(another.state, index)) for index in range(3)]
    assert len(set(policies)) == 3  # the first two differ by their rates alone


def test_a_traced_length(case):
    """One program trains agents for different lengths; annealing follows the length."""
    hyperparams = case.hyperparams
    if "final_learning_rate" in vars(hyperparams):
        hyperparams = hyperparams.replace(final_learning_rate=0.1)
    arguments = KEYS[0], hyperparams, *case.arguments[1:]
    results = {n: case.train(n, *arguments) for n in (1, 2, 4)}
    assert case.train._cache_size() == 1
    for n, result in results.items():
        assert np.sum(result.episodes.steps) == 32 * n
        assert all(leaf.shape == (4,) for leaf in jax.tree.leaves(result.metrics))
    short = dataclasses.replace(case.config, total_timesteps=2 * 32)
    expected = jax.jit(case.make(short, **case.slot).train)(*arguments)
    policies = (case.learner.policy(result.state) for result in (results[2], expected))
    assert_same(*policies, rtol=1e-4, atol=1e-6)
    for field, other in zip(results[2].episodes, expected.episodes, strict=True):
        np.testing.assert_array_equal(field[:2], other)
        np.testing.assert_array_equal(field[2:], 0.0)


def test_stopped_and_continued_is_running_through(case):
    start = case.init(KEYS[0], *case.arguments)
    straight, outputs = case.run_updates(start, 4)
    halfway, first = case.run_updates(start, 2)
    leaves, structure = jax.tree.flatten(halfway)
    restored = [  # from the host, as from a checkpoint
        jax.random.wrap_key_data(jnp.asarray(data))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else jnp.asarray(data)
        for leaf, data in zip(leaves, numbers(halfway), strict=True)
    ]
    continued, second = case.run_updates(jax.tree.unflatten(structure, restored), 2)
    assert_same(continued, straight)
    assert_same(first + second, outputs)


def test_only_another_config_recompiles(case):
    hyperparams, meta_params, env_params = case.arguments
    results = [case.train(4, KEYS[0], hyperparams, meta_params, env_params)]
    count = len(case.traces)
    assert count > 0
    changed = jax.tree.map(lambda x: 0.5 * x, hyperparams)  # every field
    results += [
        case.train(4, KEYS[0], changed, meta_params, env_params),
        case.train(4, KEYS[0], hyperparams, {"scale": 3.0}, env_params),
        case.train(4, KEYS[0], hyperparams, meta_params, case.other_env_params),
    ]
    assert len(case.traces) == count
    assert len({case.policy_bytes(each.state) for each in results}) == 4  # but each one counts


def test_equal_learners_are_one_to_the_compiler(case):
    first, second = case.make(case.config), case.make(case.config)
    assert first == second
    assert hash(first) == hash(second)
    assert first != case.learner


def test_evaluations_are_episodes_of_the_greedy_policy_at_their_moment(case):
    learner, key = case.learner, KEYS[0]

    @jax.jit
    def step(policy, episode, act_key, env_key):
        obs, state, memory = episode
        action, memory = acting.act(
            learner, policy, memory, act_key, obs, greedy=True, env_params=case.env_params
        )
        obs, state, reward, *ends, _ = case.env.step(env_key, state, action, case.env_params)
        return (obs, state, memory), reward, jnp.any(jnp.array(ends))

    def played(state, updates):
        key, total = jax.random.fold_in(jax.random.fold_in(KEYS[0], STREAM), updates), 0.0
        start_key, key = jax.random.split(key)
        starts, keys = jax.random.split(start_key, 2), []
        for _ in range(12):
            key, *own = jax.random.split(key, 3)
            keys.append([jax.random.split(each, 2) for each in own])
        for number, start in enumerate(starts):
            episode = *acting.reset(case.env, start, case.env_params), acting.begin(learner)
            for act_keys, env_keys in keys:
                episode, reward, done = step(
                    learner.policy(state), episode, act_keys[number], env_keys[number]
                )
                total += float(reward)
                if done:
                    break
        return total / 2

    result = case.train(4, key, *case.arguments)
    state, _ = case.run_updates(case.init(key, *case.arguments), 2)
    expected = []
    for updates in (2, 3, 4):
        expected.append(played(state, updates))
        state, _ = case.run_updates(state, 1)
    np.testing.assert_allclose(result.evaluations, expected, rtol=1e-5)
    short = case.train(2, key, *case.arguments).evaluations
    assert short[1] == short[2]  # both are at the end
