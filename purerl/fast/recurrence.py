"""A gated recurrent unit along sequences, with fewer kernels on a GPU.

In place of

    def through_time(cell, features, memory, done):
        remembered = []
        for features_t, done_t in zip(features, done):
            memory, _ = cell(memory, features_t)
            remembered.append(memory)
            memory = jnp.where(done_t[:, None], 0.0, memory)
        return jnp.stack(remembered)

For a GPU, the products with the features of all steps come before the loop, and the three products
with the memory are one. Backwards, a step is computed again instead of being read from memory.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.fast.activations import tanh
from purerl.fast.switch import on_cpu

GATES = "r", "z", "n"
"""Names of the gates in the parameters of `flax.linen.GRUCell`: reset, update, new."""
UNROLL = 16
"""Steps in one iteration on a GPU."""


def through_time(
    cell: nn.GRUCell, features: jax.Array, memory: jax.Array, done: jax.Array
) -> jax.Array:
    """Return the memories [T, n, H] after every step, before any reset.

    Args:
        cell: with `purerl.fast.activations.tanh`, inside a module.
        features: [T, n, F].
        memory: [n, H] before the first step.
        done: [T, n] bool, whether an episode ended with a step, which resets the memory.
    """
    if not on_cpu():
        return _with_few_kernels(cell.variables["params"], features, memory, done)

    def step(cell, memory, inputs):
        features, done = inputs
        remembered, _ = cell(memory, features)
        return _reset(remembered, done), remembered

    scan = nn.scan(step, variable_broadcast="params", split_rngs={"params": False})
    _, remembered = scan(cell, memory, (features, done))
    return remembered


def _with_few_kernels(
    params: Mapping[str, Any], features: jax.Array, memory: jax.Array, done: jax.Array
) -> jax.Array:
    """Compute as `flax.linen.GRUCell` does (Cho et al. 2014)."""

    def joined(side: str, name: str) -> jax.Array:
        return jnp.concatenate([params[side + gate][name] for gate in GATES], axis=-1)

    entering = features @ joined("i", "kernel")  # [T, n, 3 H]
    entering = entering + joined("i", "bias")[None, None]
    recurrent, bias = joined("h", "kernel"), params["hn"]["bias"][None]

    @jax.checkpoint
    def step(memory, inputs):
        entering, done = inputs
        seen = jnp.split(entering, len(GATES), axis=-1)
        known = jnp.split(memory @ recurrent, len(GATES), axis=-1)
        reset, update = (jax.nn.sigmoid(seen[i] + known[i]) for i in range(2))
        new = tanh(seen[2] + reset * (known[2] + bias))
        remembered = (1.0 - update) * new + update * memory
        return _reset(remembered, done), remembered

    _, remembered = loops.scan(step, memory, (entering, done), unroll=UNROLL)
    return remembered


def _reset(memory: jax.Array, done: jax.Array) -> jax.Array:
    return jnp.where(done[..., None], 0.0, memory)
