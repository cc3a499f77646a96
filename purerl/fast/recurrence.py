"""A gated recurrent unit along sequences, as one kernel on a GPU.

In place of

    def through_time(cell, features, memory, done):
        remembered = []
        for features_t, done_t in zip(features, done):
            memory, _ = cell(memory, features_t)
            remembered.append(memory)
            memory = jnp.where(done_t[:, None], 0.0, memory)
        return jnp.stack(remembered)

On a GPU, XLA would launch several kernels for every step. Here the products with the features of
all steps come first; then a block of threads goes through all steps of one agent, and backwards
through them from the last, where it computes each step a second time.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.fast.arithmetic import tanh
from purerl.fast.kernels import Block, call, can_compute, differentiable

GATES = "r", "z", "n"
"""Names of the gates in the parameters of `flax.linen.GRUCell`: reset, update, new."""
WIDEST = 64
"""Units, and sequences of an agent, of one kernel at most."""
WARPS = 4
UNROLL = 16
"""Steps in one iteration of a loop, where no kernel goes through them all."""


def through_time(
    cell: nn.GRUCell, features: jax.Array, memory: jax.Array, done: jax.Array
) -> jax.Array:
    """Return the memories [T, n, H] after every step, before any reset (Cho et al. 2014).

    Args:
        cell: with `purerl.fast.arithmetic.tanh`, inside a module.
        features: [T, n, F].
        memory: [n, H] before the first step.
        done: [T, n] bool, whether an episode ended with a step, which resets the memory.
    """
    params: Mapping[str, Any] = cell.variables["params"]

    def stacked(side: str, name: str) -> jax.Array:
        return jnp.stack([params[side + gate][name] for gate in GATES])

    kernels, biases = stacked("i", "kernel"), stacked("i", "bias")
    entering = jnp.einsum("tnf,gfh->tgnh", features, kernels) + biases[None, :, None]
    known = stacked("h", "kernel"), params["hn"]["bias"]
    keeps = (~done).astype(entering.dtype)  # kernels load numbers
    inputs = entering, *known, memory, keeps
    fits = can_compute(inputs) and max(memory.shape) <= WIDEST
    # Step by step, kernels of XLA would take longer for a single agent, too.
    along = differentiable(_plain, _forward, _backward, 1) if fits else _plain
    return along(*inputs)


def _plain(
    entering: jax.Array,
    recurrent: jax.Array,
    bias: jax.Array,
    memory: jax.Array,
    keeps: jax.Array,
) -> jax.Array:
    """Return the memories [T, n, H] after every step.

    Args:
        entering: [T, 3, n, H] products of the features, for each gate.
        recurrent: [3, H, H] kernels of the memory.
        bias: [H] of the memory in the new gate.
        memory: [n, H] before the first step.
        keeps: [T, n] 0 where a step is the last of an episode, otherwise 1.
    """
    joined = jnp.concatenate(list(recurrent), axis=-1)  # one product is faster than three

    @jax.checkpoint  # backwards, computing a step again takes less time than reading it
    def step(memory, inputs):
        entering, keeps = inputs
        known = jnp.split(memory @ joined, len(GATES), axis=-1)
        remembered, *_ = _step(memory, list(entering), known, bias)
        return _kept(remembered, keeps > 0), remembered

    _, remembered = loops.scan(step, memory, (entering, keeps), unroll=UNROLL)
    return remembered


def _step(
    memory: jax.Array, entering: list[jax.Array], known: list[jax.Array], bias: jax.Array
) -> tuple[jax.Array, ...]:
    """Return the next memory, the three gates, and the memory's part in the new gate.

    The features contribute `entering` to the gates, and the memory `known`.
    """
    reset, update = (jax.nn.sigmoid(entering[i] + known[i]) for i in range(2))
    part = known[2] + bias[None]
    new = tanh(entering[2] + reset * part)
    return (1.0 - update) * new + update * memory, reset, update, new, part


def _kept(memory: jax.Array, keeps: jax.Array) -> jax.Array:
    """Return memories [n, H], with zeros instead of those, even NaN, that are not kept [n]."""
    return jnp.where(keeps[:, None], memory, 0.0)


# --- The kernels, for agents [A, ...] -------------------------------------------------------------


def _forward(*inputs: jax.Array) -> jax.Array:
    entering = inputs[0]
    agents, steps, _, sequences, units = entering.shape
    out = jax.ShapeDtypeStruct((agents, steps, sequences, units), entering.dtype)
    return call(_forward_kernel, inputs, out, WARPS)


def _backward(*inputs: jax.Array) -> tuple[jax.Array, ...]:
    *differentiated, keeps, _, _ = inputs
    gradients = call(_backward_kernel, inputs, tuple(differentiated), WARPS)
    return (*gradients, jnp.zeros_like(keeps))


def _forward_kernel(inputs: tuple[Block, ...], out: Block) -> None:
    entering, recurrent, bias, memory, keeps = inputs

    def step(t, memory):
        gates = range(len(GATES))
        parts = [entering.load(t, i) for i in gates], [memory @ recurrent.load(i) for i in gates]
        remembered, *_ = _step(memory, *parts, bias.load())
        out.store(remembered, t)
        return _kept(remembered, keeps.load(t) > 0)

    jax.lax.fori_loop(0, entering.shape[0], step, memory.load())


def _backward_kernel(inputs: tuple[Block, ...], outputs: tuple[Block, ...]) -> None:
    entering, recurrent, bias, memory, keeps, remembered, gradient = inputs
    of_entering, of_recurrent, of_bias, of_memory = outputs
    gates = range(len(GATES))
    steps = entering.shape[0]

    def step(index, carry):
        back, of_kernels, of_bias = carry
        t = steps - 1 - index
        before = jnp.maximum(t - 1, 0)
        earlier = _kept(remembered.load(before), keeps.load(before) > 0)
        start = jnp.where(t == 0, memory.load(), earlier)
        kernels = [recurrent.load(i) for i in gates]
        parts = [entering.load(t, i) for i in gates], [start @ kernel for kernel in kernels]
        _, reset, update, new, part = _step(start, *parts, bias.load())
        back = gradient.load(t) + _kept(back, keeps.load(t) > 0)
        of_new = back * (1.0 - update) * (1.0 - new * new)
        of_update = back * (start - new) * update * (1.0 - update)
        of_reset = of_new * part * reset * (1.0 - reset)
        for i, each in enumerate((of_reset, of_update, of_new)):
            of_entering.store(each, t, i)
        of_known = [of_reset, of_update, of_new * reset]
        back = back * update
        for i in gates:
            back = back + of_known[i] @ kernels[i].T
        of_kernels = [of_kernels[i] + start.T @ of_known[i] for i in gates]
        return back, of_kernels, of_bias + jnp.sum(of_known[2], axis=0)

    zeros = memory.zeros(), [recurrent.zeros(0) for _ in gates], bias.zeros()
    back, of_kernels, of_bias_sum = jax.lax.fori_loop(0, steps, step, zeros)
    of_memory.store(back)
    of_bias.store(of_bias_sum)
    for i in gates:
        of_recurrent.store(of_kernels[i], i)
