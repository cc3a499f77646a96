"""A recurrence laid out for a GPU, against flax's cell step by step."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast import kernels, recurrence
from purerl.parts.networks import Recurrence

TOLERANCE = 1e-4 if jax.default_backend() == "cpu" else 2e-2
"""TF32 has 10 bits of mantissa."""


@pytest.fixture(params=["one kernel", "a loop"])
def layout(request, gpu_layout, monkeypatch):
    """Compute as on a GPU; on a CPU, Pallas interprets the kernels. Return their launches."""
    launches = []

    def launch(kernel, *rest):
        launches.append(kernel)
        return kernels.call(kernel, *rest)

    monkeypatch.setattr(kernels, "on_cpu", lambda: jax.default_backend() == "cpu")
    monkeypatch.setattr(recurrence, "call", launch)
    monkeypatch.setattr(recurrence, "UNROLL", 2)
    if request.param == "a loop":
        monkeypatch.setattr(recurrence, "WIDEST", 0)
    return launches


def case(steps, sequences, features, size, seed=0):
    rng = np.random.default_rng(seed)
    inputs, memory = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((steps, sequences, features), (sequences, size))
    )
    done = jnp.asarray(rng.random((steps, sequences)) < 0.2)
    module = Recurrence(size)
    params = module.init(jax.random.key(0), inputs[0], memory)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases start at zero
    return module, done, (params, inputs, memory)


def at_once(module, done, params, features, memory):
    flat = features.reshape(-1, features.shape[-1])
    return module.apply(params, flat, memory, done).reshape(*done.shape, -1)


def one_by_one(module, done, params, features, memory):
    remembered = []
    for t in range(len(done)):
        memory = module.apply(params, features[t], memory)
        remembered.append(memory)
        memory = jnp.where(done[t, :, None], 0.0, memory)
    return jnp.stack(remembered)


def test_values_and_gradients_match_single_steps(layout):
    module, done, arguments = case(3, 17, 3, 33)

    @partial(jax.jit, static_argnums=0)
    def value_and_gradients(function, *arguments):
        def loss(*arguments):
            value = function(module, done, *arguments)
            return jnp.sum(jnp.sin(value)), value

        return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*arguments)

    found, expected = (value_and_gradients(f, *arguments) for f in (at_once, one_by_one))
    assert len(layout) == (2 if recurrence.WIDEST else 0)  # forwards and backwards
    chex.assert_trees_all_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_agents_side_by_side(layout):
    several = [case(5, 3, 4, 6, seed) for seed in range(3)]
    module, _, _ = several[0]
    done = jnp.stack([done for _, done, _ in several])
    arguments = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(each for *_, each in several))

    def loss(function, done, arguments):
        return jnp.sum(jnp.sin(function(module, done, *arguments)))

    gradients = jax.vmap(jax.grad(partial(loss, at_once), argnums=1))(done, arguments)
    for i, (_, done, own) in enumerate(several):
        expected = jax.grad(partial(loss, one_by_one), argnums=1)(done, own)
        found = jax.tree.map(lambda leaf, i=i: leaf[i], gradients)
        chex.assert_trees_all_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_an_episode_with_nan_does_not_spoil_the_next_one(layout):
    module, done, (params, features, memory) = case(5, 3, 4, 6)
    done = done.at[1].set(True)
    features = features.at[0].set(jnp.nan)
    remembered = at_once(module, done, params, features, memory)
    assert np.isnan(remembered[:2]).all()
    assert np.isfinite(remembered[2:]).all()
