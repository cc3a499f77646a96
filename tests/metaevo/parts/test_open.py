"""OPEN's step against a plain computation in NumPy, parameter by parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.parts import open as open_part
from purerl.ppo import Hyperparams
from purerl.types import Context

MADE = open_part.Open()
SHAPES = {
    "actor_torso": {"Dense_0": {"bias": (3,), "kernel": (2, 3)}},
    "policy_head": {"bias": (1,)},
    "value_head": {"kernel": (3, 1)},
}


def tree(seed, size=1.0):
    rng = np.random.default_rng(seed)
    values = jax.tree.map(
        lambda shape: jnp.asarray(size * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda x: isinstance(x, tuple),
    )
    return {"params": values}


def weights():
    """None of them zero."""
    shapes, rng = jax.eval_shape(MADE.init, jax.random.key(0)), np.random.default_rng(1)
    return jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), jnp.float32), shapes)


def test_it_has_1211_numbers():
    """Of which the GRU 680 and the network 531."""
    meta_params = jax.eval_shape(MADE.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(meta_params)) == 1211
    assert sum(leaf.size for leaf in jax.tree.leaves(meta_params["gru"])) == 680


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Plain:
    """Goldie et al. 2024 (section 4, appendix A), one parameter after another, in float64."""

    decays = 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999

    def __init__(self, meta_params):
        self.weights = jax.tree.map(lambda x: np.asarray(x, np.float64), meta_params)
        self.momenta: dict = {}
        self.memory: dict = {}

    def network(self, name, x):
        gru = self.weights["gru"]
        before = self.memory.get(name, np.zeros(8))
        r, z, n = (gru["inputs"] @ x + gru["bias"]).reshape(3, 8)
        of_r, of_z, of_n = (gru["memory"] @ before).reshape(3, 8)
        r, z = sigmoid(r + of_r), sigmoid(z + of_z)
        h = (1 - z) * np.tanh(n + r * (of_n + gru["memory_bias"])) + z * before
        self.memory[name] = h
        for layer in ("first", "second"):
            h = self.weights[layer]["kernel"] @ h + self.weights[layer]["bias"]
            norm = self.weights[f"{layer}_norm"]
            h = (h - h.mean()) / np.sqrt(h.var() + 1e-6) * norm["scale"] + norm["bias"]
            h = np.maximum(h, 0)
        return self.weights["output"]["kernel"] @ h + self.weights["output"]["bias"]

    def step(self, params, gradients, progress, epoch, dormancy, noise):
        """All are dicts of vectors by the arrays' names."""
        steps = {}
        for name, (depth, policy) in LAYERS.items():
            momenta = self.momenta.get(name, np.zeros((6, gradients[name].size)))
            for row, decay in enumerate(self.decays):
                momenta[row] = decay * momenta[row] + (1 - decay) * gradients[name]
            self.momenta[name] = momenta
            rows = [params[name]]
            for row in (*momenta, gradients[name]):
                rows += [np.sign(row), np.log(np.abs(row) + 1e-8)]
            rows = [row / np.sqrt(np.mean(row**2) + 1e-5) for row in rows]
            for index in range(gradients[name].size):
                own = [row[index] for row in rows]
                active = dormancy[name][index] if depth < 1 else 1.0  # not told of heads
                x = np.array([*own, progress, depth, epoch, active])
                m, e, d = self.network((name, index), x)
                steps[name, index] = 1e-3 * m * np.exp(1e-3 * e)
                if policy:
                    steps[name, index] += 1e-3 * d * noise[name][index]
        mean = np.mean(list(steps.values()))
        return {key: mean - step for key, step in steps.items()}


LAYERS = {
    "actor_torso/Dense_0/bias": (0.0, True),
    "actor_torso/Dense_0/kernel": (0.0, True),
    "policy_head/bias": (1.0, True),
    "value_head/kernel": (1.0, False),
}


def vectors(params):
    """By the arrays' names."""
    found = {}
    for path, leaf in jax.tree.leaves_with_path(params):
        name = "/".join(key.key for key in path[1:])
        found[name] = np.asarray(leaf, np.float64).ravel()
    return found


def test_steps_against_a_plain_computation():
    meta_params = weights()
    optimizer, plain = MADE.apply(meta_params, Context(Hyperparams())), Plain(meta_params)
    params, dormancy = tree(0), tree(2)
    state, step = optimizer.init(params), jax.jit(optimizer.update)
    for index in range(3):
        gradients, key = tree(10 + index, size=0.1), jax.random.key(index)
        epoch = index / 4
        updates, state = step(
            gradients, state, params, progress=index / 3, epoch=epoch, key=key, dormancy=dormancy
        )
        noise = jax.random.normal(key, (13,))
        _, unravel = jax.flatten_util.ravel_pytree(params)
        expected = plain.step(
            *map(vectors, (params, gradients)),
            *(index / 3, epoch),
            *map(vectors, (dormancy, unravel(noise))),
        )
        for name, update in vectors(updates).items():
            for each, value in enumerate(update):
                assert value == pytest.approx(expected[name, each], rel=2e-3, abs=2e-6)


def test_steps_are_finite_for_huge_weights():
    huge = jax.tree.map(lambda x: 1e12 * x, weights())
    optimizer = MADE.apply(huge, Context(Hyperparams()))
    params, state, update = tree(0), optimizer.init(tree(0)), jax.jit(optimizer.update)
    told = {"progress": 0.5, "epoch": 0.5, "key": jax.random.key(0), "dormancy": tree(2)}
    for size in (1e6, 0.0):
        updates, state = update(tree(1, size), state, params, **told)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))
