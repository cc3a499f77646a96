"""The memory of a recurrent agent: a gated recurrent unit."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast.arithmetic import orthogonal, tanh
from purerl.fast.switch import triton_module


class Recurrence(nn.Module):
    """A gated recurrent unit (Cho et al. 2014), for one step or for whole sequences.

    Its state is its output. An episode begins with zeros. Recurrent kernels start orthogonal, the
    kernels of inputs with a variance of 1 / inputs.
    """

    size: int

    @nn.compact
    def __call__(
        self, features: jax.Array, memory: jax.Array, done: jax.Array | None = None
    ) -> jax.Array:
        """Return the memory after some features.

        Args:
            features: [..., F]; with `done` [T * n, F], n sequences of T steps, time first.
            memory: [..., size] before these features; with `done` [n, size], before the first step.
            done: [T, n] bool, whether an episode ended with a step, which resets the memory.

        Returns:
            [..., size]; with `done` after every step, before any reset: [T * n, size].
        """
        cell = nn.GRUCell(self.size, activation_fn=tanh, recurrent_kernel_init=orthogonal())
        if done is None:
            return cell(memory, features)[0]

        kernels = triton_module("recurrence")
        along = _through_time if kernels is None else kernels.through_time
        remembered = along(cell, features.reshape(*done.shape, -1), memory, done)
        return remembered.reshape(-1, self.size)


def _through_time(
    cell: nn.GRUCell, features: jax.Array, memory: jax.Array, done: jax.Array
) -> jax.Array:
    """Return the memories [T, n, H] after every step, before any reset.

    Features are [T, n, F], the memory [n, H] is that before the first step, and `done` [T, n] bool
    resets it.
    """

    def step(cell, memory, inputs):
        features, done = inputs
        remembered, _ = cell(memory, features)
        return jnp.where(done[:, None], 0.0, remembered), remembered

    scan = nn.scan(step, variable_broadcast="params", split_rngs={"params": False})
    _, remembered = scan(cell, memory, (features, done))
    return remembered
