"""The kernels of a GPU for small networks; on a CPU, Pallas interprets them."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs, ppo
from purerl.fast import perceptron as perceptrons
from purerl.fast import switch
from purerl.fast.perceptron import perceptron
from purerl.fast.switch import has_triton

AGENTS = 3
TOLERANCE = 1e-4 if jax.default_backend() == "cpu" else 2e-2
"""TF32 has 10 bits of mantissa."""


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    """Use the kernels wherever a GPU would, for two agents or more."""
    monkeypatch.setattr(perceptrons, "MANY", 2)
    monkeypatch.setattr(switch, "has_triton", lambda: True)


@pytest.fixture
def launches(monkeypatch):
    """The shapes of the inputs that kernels are launched for."""
    shapes = []
    launch = perceptrons.call

    def recorded(kernel, inputs, outputs, warps):
        shapes.append(inputs[1].shape)
        return launch(kernel, inputs, outputs, warps)

    monkeypatch.setattr(perceptrons, "call", recorded)
    return shapes


def network(*sizes, agents=AGENTS, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return jnp.asarray(rng.normal(size=(agents, *shape)), jnp.float32)

    return tuple((normal(a, b) / a**0.5, normal(b) / 4) for a, b in itertools.pairwise(sizes))


def inputs(*shape, seed=1):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def of_agent(layers, agent):
    return jax.tree.map(lambda leaf: leaf[agent], layers)


def by_hand(layers, x, activation):
    function = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[activation]
    y = np.asarray(x, np.float64)
    for number, (kernel, bias) in enumerate(layers, start=1):
        y = y @ np.asarray(kernel, np.float64) + np.asarray(bias, np.float64)
        y = function(y) if number < len(layers) else y
    return y


def assert_close(tree, expected):
    for leaf, other in zip(jax.tree.leaves(tree), jax.tree.leaves(expected), strict=True):
        assert leaf.shape == other.shape
        scale = np.abs(other).max() + 1e-12
        np.testing.assert_allclose(leaf / scale, other / scale, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("sizes", "rows", "activation"),
    [
        ((3, 20, 1), 7, "tanh"),
        ((17, 9, 33, 6), 140, "relu"),
        ((5, 2), 64, "tanh"),
    ],
)
def test_outputs_and_gradients_match_the_layers(sizes, rows, activation, launches):
    layers, x = network(*sizes), inputs(AGENTS, rows, sizes[0])
    weights = inputs(AGENTS, rows, sizes[-1], seed=2)

    def loss(layers, x, weights):
        return jnp.sum(perceptron(layers, x, activation) * weights)

    def plain(layers, x, weights):
        return jnp.sum(perceptrons._plain(layers, x, activation=activation) * weights)

    outputs = jax.vmap(lambda layers, x: perceptron(layers, x, activation))(layers, x)
    for agent in range(AGENTS):
        assert_close(outputs[agent], by_hand(of_agent(layers, agent), x[agent], activation))
    gradients = jax.vmap(jax.grad(loss, argnums=(0, 1)))(layers, x, weights)
    assert len(launches) == 3  # the outputs, and forwards and backwards
    assert_close(gradients, jax.vmap(jax.grad(plain, argnums=(0, 1)))(layers, x, weights))


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "fused"),
    [({}, True), ({"shared_network": True}, False), ({"layer_norm": True}, False)],
)
def test_ppo_uses_kernels_and_learns_the_same(settings, fused, launches, monkeypatch):
    env, env_params = envs.make("CartPole-v1")
    config = ppo.Config(
        2 * 4 * 4, num_envs=4, num_steps=4, hidden_sizes=(8,), update_epochs=1, num_minibatches=1,
        **settings,
    )  # fmt: skip
    keys = jax.random.split(jax.random.key(0), AGENTS)

    def train(key):
        learner = ppo.PPO(config, env)
        return learner.train(key, ppo.Hyperparams(), None, env_params).state.params

    compiled = jax.jit(jax.vmap(train)).lower(keys)
    assert bool(launches) == fused
    if fused:
        found = compiled.compile()(keys)
        monkeypatch.setattr(switch, "has_triton", lambda: False)
        expected = jax.vmap(train)(keys)
        for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(leaf, other, atol=10 * TOLERANCE)


def test_agents_under_several_vmaps_are_one_launch(launches):
    layers = jax.tree.map(
        lambda leaf: leaf.reshape(2, 3, *leaf.shape[1:]), network(4, 8, 2, agents=6)
    )
    x = inputs(2, 3, 5, 4)
    outputs = jax.jit(jax.vmap(jax.vmap(lambda *each: perceptron(*each, "tanh"))))(layers, x)
    assert launches[-1] == (6, 5, 4)  # others are traced only
    own = of_agent(layers, (1, 2))
    assert_close(outputs[1, 2], by_hand(own, x[1, 2], "tanh"))


@pytest.mark.parametrize("axes", [(None, 0), (0, None)])
def test_shared_arguments_are_not_copied_for_a_kernel(axes, launches):
    layers, x = network(4, 8, 2), inputs(AGENTS, 5, 4)
    if axes[0] is None:
        layers = jax.tree.map(lambda leaf: leaf[0], layers)
    else:
        x = x[0]
    outputs = jax.vmap(lambda layers, x: perceptron(layers, x, "relu"), in_axes=axes)(layers, x)
    assert not launches
    for agent in range(AGENTS):
        own = layers if axes[0] is None else of_agent(layers, agent)
        assert_close(outputs[agent], by_hand(own, x if axes[1] is None else x[agent], "relu"))


def test_gradients_of_gradients():
    layers, x = network(3, 8, 1), inputs(AGENTS, 4, 3)

    def length(function, layers, x):
        gradient = jax.grad(lambda layers: jnp.sum(function(layers, x) ** 2))(layers)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))

    def second(function):
        return jax.vmap(jax.grad(lambda layers, x: length(function, layers, x)))(layers, x)

    fused = second(lambda layers, x: perceptron(layers, x, "tanh"))
    assert_close(fused, second(lambda layers, x: perceptrons._plain(layers, x, activation="tanh")))


@pytest.mark.parametrize(
    ("sizes", "shape", "activation", "dtype"),
    [
        ((4, 65, 2), (5, 4), "tanh", jnp.float32),
        ((80, 8, 2), (5, 80), "tanh", jnp.float32),
        ((4, 8, 2), (513, 4), "tanh", jnp.float32),
        ((4, 8, 8, 8, 2), (5, 4), "tanh", jnp.float32),
        ((4, 8, 2), (5, 4), "elu", jnp.float32),
        ((4, 8, 2), (5, 4), "tanh", jnp.bfloat16),
        ((0, 8, 2), (5, 0), "tanh", jnp.float32),
        ((4, 8, 2), (0, 4), "tanh", jnp.float32),
    ],
)
def test_networks_that_no_kernel_computes(sizes, shape, activation, dtype):
    layers = jax.tree.map(lambda leaf: leaf[0].astype(dtype), network(*sizes))
    assert not perceptrons.is_fused(layers, jnp.zeros(shape, dtype), activation)


@pytest.mark.parametrize(
    ("capability", "expected"), [("9.0", True), ("8.0", True), ("7.5", False), ("gfx942", False)]
)
def test_gpus_that_triton_compiles_for(capability, expected, monkeypatch):
    [cpu, *_] = jax.devices("cpu")
    device = SimpleNamespace(platform="gpu", compute_capability=capability)
    monkeypatch.setattr(jax, "devices", lambda platform=None: [device])
    assert has_triton() == expected
    with jax.default_device(cpu):
        assert not has_triton()


def test_few_agents_are_left_to_xla(launches, monkeypatch):
    monkeypatch.setattr(perceptrons, "MANY", AGENTS + 1)
    layers, x = network(4, 8, 2), inputs(AGENTS, 5, 4)
    outputs = jax.vmap(lambda layers, x: perceptron(layers, x, "tanh"))(layers, x)
    assert not launches
    assert outputs.shape == (AGENTS, 5, 2)


def test_full_precision_is_xlas():
    layers = of_agent(network(4, 8, 2), 0)
    assert perceptrons.is_fused(layers, jnp.zeros((5, 4)), "tanh")
    with jax.default_matmul_precision("highest"):
        assert not perceptrons.is_fused(layers, jnp.zeros((5, 4)), "tanh")
