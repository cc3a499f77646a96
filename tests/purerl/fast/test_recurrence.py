"""A recurrence laid out for a GPU, against flax's cell step by step."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np

from purerl.fast import recurrence
from purerl.parts.recurrence import Recurrence

STEPS, SEQUENCES, FEATURES, SIZE = 5, 3, 4, 2


def test_values_and_gradients_are_those_of_steps_one_by_one(gpu_layout, monkeypatch):
    monkeypatch.setattr(recurrence, "UNROLL", 2)
    rng = np.random.default_rng(0)
    features, memory = (
        jnp.asarray(rng.normal(size=size), jnp.float32)
        for size in ((STEPS, SEQUENCES, FEATURES), (SEQUENCES, SIZE))
    )
    done = jnp.asarray(rng.random((STEPS, SEQUENCES)) < 0.2)
    module = Recurrence(SIZE)
    params = module.init(jax.random.key(0), features[0], memory)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases start at zero

    def at_once(params, features, memory):
        flat = features.reshape(-1, FEATURES)
        return module.apply(params, flat, memory, done).reshape(STEPS, SEQUENCES, SIZE)

    def one_by_one(params, features, memory):
        remembered = []
        for t in range(STEPS):
            memory = module.apply(params, features[t], memory)
            remembered.append(memory)
            memory = jnp.where(done[t, :, None], 0.0, memory)
        return jnp.stack(remembered)

    @partial(jax.jit, static_argnums=0)
    def value_and_gradients(function, *arguments):
        def loss(*arguments):
            value = function(*arguments)
            return jnp.sum(jnp.sin(value)), value

        return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*arguments)

    arguments = params, features, memory
    found, expected = (value_and_gradients(f, *arguments) for f in (at_once, one_by_one))
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)
