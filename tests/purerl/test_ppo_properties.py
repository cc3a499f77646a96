"""What users of PPO rely on: one agent or many, at once or in pieces, compiled once."""

import os
import re
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs, ppo
from purerl.parts import losses
from purerl.types import TrainResult
from tests.purerl import probes

pytestmark = pytest.mark.long

CONFIG = ppo.Config(
    total_timesteps=4 * 32,
    num_envs=4,
    num_steps=8,
    update_epochs=2,
    num_minibatches=2,
    hidden_sizes=(8,),
    normalize_observations=True,
    normalize_rewards=True,
)
HYPERPARAMS = ppo.Hyperparams(learning_rate=3e-3)
KEYS = jax.random.split(jax.random.key(0), 3)
LAPACK = re.compile(r"lapack|geqrf|getrf|syevd|gesdd|potrf|\bqr\b|householder|ducc_fft", re.I)


class Small:
    """PPO on CartPole with few steps, its functions compiled once."""

    def __init__(self):
        self.env, self.env_params = envs.make("CartPole-v1", max_steps_in_episode=12)
        self.learner = ppo.PPO(CONFIG, self.env)
        self.arguments = HYPERPARAMS, None, self.env_params
        self.init, self.update = jax.jit(self.learner.init), jax.jit(self.learner.update)
        self.train = jax.jit(self.learner.train)
        self.train_all = jax.jit(jax.vmap(self.learner.train, in_axes=(0, None, None, None)))

    def run_updates(self, state, count):
        outputs = []
        for _ in range(count):
            state, *output = self.update(state, *self.arguments)
            outputs.append(output)
        return state, outputs


@pytest.fixture(scope="module")
def small():
    return Small()


def numbers(tree):
    """The leaves as NumPy arrays, keys as their data."""
    leaves = jax.tree.leaves(tree)
    typed = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return [
        np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        for leaf, is_key in zip(leaves, typed, strict=True)
    ]


def assert_same(first, second, **tolerance):
    compare = partial(np.testing.assert_allclose, **tolerance) if tolerance else exactly
    for a, b in zip(numbers(first), numbers(second), strict=True):
        compare(a, b)


def exactly(a, b):
    np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.smoke
def test_same_key_same_result(small):
    first, second = (small.train(KEYS[0], *small.arguments) for _ in range(2))
    assert_same(first, second)
    other = small.train(KEYS[1], *small.arguments)
    for a, b in zip(
        jax.tree.leaves(first.state.params), jax.tree.leaves(other.state.params), strict=True
    ):
        assert not np.array_equal(a, b)


def test_vmapped_is_looped(small):
    together = small.train_all(KEYS, *small.arguments)
    for index, key in enumerate(KEYS):
        alone = small.train(key, *small.arguments)
        assert_same(jax.tree.map(lambda x, i=index: x[i], together), alone, rtol=2e-3, atol=2e-4)


def test_agents_are_independent(small):
    before = small.train_all(KEYS, *small.arguments)
    after = small.train_all(KEYS.at[1].set(jax.random.key(99)), *small.arguments)
    for a, b in zip(numbers(before.state.params), numbers(after.state.params), strict=True):
        exactly(a[[0, 2]], b[[0, 2]])
        assert not np.array_equal(a[1], b[1])
    for a, b in zip(numbers(before), numbers(after), strict=True):
        exactly(a[[0, 2]], b[[0, 2]])


def test_hyperparams_and_env_params_can_be_vmapped(small):
    rates, forces = jnp.array([1e-3, 1e-2]), jnp.array([10.0, 5.0])

    def train(rate, force):
        hyperparams = HYPERPARAMS.replace(learning_rate=rate)
        return small.train(KEYS[0], hyperparams, None, small.env_params.replace(force_mag=force))

    together = jax.vmap(train)(rates, forces).state.params
    for index in range(2):
        alone = train(float(rates[index]), float(forces[index])).state.params  # compiled already
        assert_same(jax.tree.map(lambda x, i=index: x[i], together), alone, rtol=2e-3, atol=2e-4)
    leaf = together["params"]["value_head"]["kernel"]
    assert not np.allclose(leaf[0], leaf[1])


def test_stopped_and_continued_is_running_through(small):
    start = small.init(KEYS[0], *small.arguments)
    straight, outputs = small.run_updates(start, 4)

    halfway, first = small.run_updates(start, 2)
    leaves, structure = jax.tree.flatten(halfway)  # to the host, as a checkpoint would
    keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    restored = [
        jax.random.wrap_key_data(jnp.asarray(data)) if is_key else jnp.asarray(data)
        for data, is_key in zip(numbers(halfway), keys, strict=True)
    ]
    continued, second = small.run_updates(jax.tree.unflatten(structure, restored), 2)
    assert_same(continued, straight)
    assert_same(first + second, outputs)


def test_train_is_init_and_updates(small):
    state, outputs = small.run_updates(small.init(KEYS[0], *small.arguments), 4)
    result = small.train(KEYS[0], *small.arguments)
    episodes, metrics = jax.tree.map(lambda *x: jnp.stack(x), *map(tuple, outputs))
    assert_same(result, TrainResult(state, episodes, metrics), rtol=1e-4, atol=1e-5)
    assert result.state.update == CONFIG.num_updates == 4


def test_only_another_config_recompiles():
    traces = []

    def value_loss(meta_params, *arguments):
        traces.append(1)  # runs when traced, not when compiled code runs
        return meta_params["scale"] * losses.squared(meta_params, *arguments)

    env, env_params = envs.make("CartPole-v1")
    _, other_params = envs.make("CartPole-v1", gravity=5.0, max_steps_in_episode=7)
    config = ppo.Config(total_timesteps=16, num_envs=2, num_steps=8, hidden_sizes=(4,))
    train = jax.jit(ppo.make_train(config, env, value_loss=value_loss))
    hyperparams = ppo.Hyperparams(annealing_steps=1e6)
    result = train(KEYS[0], hyperparams, {"scale": 1.0}, env_params)
    count = len(traces)
    assert count > 0
    changed = jax.tree.map(lambda x: 0.5 * x, hyperparams)  # every field
    results = [
        train(KEYS[0], changed, {"scale": 1.0}, env_params),
        train(KEYS[0], hyperparams, {"scale": 3.0}, env_params),
        train(KEYS[0], hyperparams, {"scale": 1.0}, other_params),
    ]
    assert len(traces) == count
    weights = [r.state.params["params"]["value_head"]["kernel"] for r in [result, *results]]
    assert len({np.asarray(w).tobytes() for w in weights}) == 4  # but each of them counts

    other = ppo.Config(total_timesteps=16, num_envs=1, num_steps=8, hidden_sizes=(4,))
    jax.jit(ppo.make_train(other, env, value_loss=value_loss)).lower(
        KEYS[0], hyperparams, {"scale": 1.0}, env_params
    )
    assert len(traces) > count


def test_equal_learners_are_one_to_the_compiler(small):
    assert ppo.PPO(CONFIG, small.env) == small.learner
    assert hash(ppo.PPO(CONFIG, small.env)) == hash(small.learner)
    assert ppo.PPO(CONFIG, small.env, losses.huber) != small.learner


def test_no_lapack_in_a_population(small):
    compiled = small.train_all.lower(KEYS, *small.arguments).compile().as_text()
    assert "while" in compiled
    assert not LAPACK.search(compiled)
    # the usual initialiser has it: the search would find it
    qr = jax.jit(jax.vmap(lambda key: jax.nn.initializers.orthogonal()(key, (4, 4))))
    assert LAPACK.search(qr.lower(KEYS).compile().as_text())


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


def test_a_population_does_not_deadlock():
    """64 agents on one multi-threaded device; the limit is far beyond what it takes."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    if hasattr(os, "sched_getaffinity"):  # few cores are where it would happen
        cores = sorted(os.sched_getaffinity(0))[:2]
        limit = f"import os; os.sched_setaffinity(0, {cores})\n"
    else:
        limit = ""
    process = subprocess.run(
        [sys.executable, "-c", limit + POPULATION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "finished (64, 4)" in process.stdout


def test_metrics_are_one_number_an_update(small):
    result = small.train(KEYS[0], *small.arguments)
    for leaf in jax.tree.leaves((result.episodes, result.metrics)):
        assert leaf.shape == (4,)
        assert leaf.dtype == jnp.float32
        assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(result.episodes.steps, 32.0)
    np.testing.assert_array_equal(result.episodes.rewards, 32.0)  # CartPole pays 1 a step


def test_memory_does_not_grow_with_steps():
    env, env_params = envs.make("CartPole-v1")
    arguments = KEYS[0], HYPERPARAMS, None, env_params

    def train(num_updates, num_steps):
        steps = num_updates * num_steps * 2
        sizes = {"num_envs": 2, "num_steps": num_steps, "hidden_sizes": (4,)}
        return jax.jit(ppo.make_train(ppo.Config(total_timesteps=steps, **sizes), env))

    short, long = (jax.eval_shape(train(3, num_steps), *arguments) for num_steps in (8, 64))
    assert jax.tree.map(jnp.shape, short) == jax.tree.map(jnp.shape, long)
    few, many = (
        train(num_updates, 8).lower(*arguments).compile().memory_analysis()
        for num_updates in (3, 300)
    )
    metrics = 4 * 11 * 300  # eleven float32 an update
    assert many.output_size_in_bytes - few.output_size_in_bytes <= metrics
    assert many.temp_size_in_bytes - few.temp_size_in_bytes <= 2 * metrics


@pytest.mark.parametrize(
    ("name", "observations"),
    [
        ("Breakout-MinAtar", "auto"),
        pytest.param("Breakout-MinAtar", "flat", marks=pytest.mark.slow),
        ("Pendulum-v1", "auto"),
        pytest.param("MountainCarContinuous-v0", "auto", marks=pytest.mark.slow),
    ],
)
def test_runs_on(name, observations):
    env, env_params = envs.make(name, observations=observations)
    learner = ppo.PPO(CONFIG, env)
    with jax.numpy_rank_promotion("allow"):  # gymnax's environments do that
        result = jax.jit(learner.train)(KEYS[0], HYPERPARAMS, None, env_params)
    for leaf in jax.tree.leaves(result.state.params):
        assert np.isfinite(leaf).all()
        assert leaf.ndim > 1 or np.abs(leaf).max() > 0  # biases (and log_std) start at zero
    for leaf in jax.tree.leaves(result.metrics):
        assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(result.episodes.steps, 32.0)


def test_actions_are_clipped_for_the_environment_only():
    """What is learned from is the action that was drawn: its density is the policy's."""

    class Shown(probes.TargetAction):
        """Pays the action that it receives."""

        def pay(self, state, action, params):
            return action[0]

    env = Shown()
    learner = ppo.PPO(CONFIG, env)
    state = learner.init(KEYS[0], HYPERPARAMS, None, env.default_params)
    _, transitions, _ = jax.jit(learner.collect)(state, env.default_params)
    action = np.asarray(transitions.action[..., 0])
    assert np.abs(action).max() > 1
    np.testing.assert_allclose(transitions.reward, np.clip(action, -1, 1), rtol=1e-6)
    density = -(action**2) / 2 - np.log(2 * np.pi) / 2  # the mean is close to 0 at the start
    np.testing.assert_allclose(transitions.log_prob, density, atol=0.1)
