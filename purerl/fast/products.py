"""Products of a layer's inputs and its weights that a CPU computes fast, gradients too.

In place of

    y = x @ weights
    gradient_of_x = gradient_of_y @ weights.T
    gradient_of_weights = x.T @ gradient_of_y

XLA's fast kernels for CPUs read matrices in the order of memory. The gradient of the weights is a
product with a transposed matrix, which they do not support, so the smaller matrix is transposed
first. The kernels are slow for matrices with few columns or rows. With few outputs, a product is
computed as products with vectors; with few inputs, as a sum of outer products, which XLA fuses with
the activation.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.switch import cpu_arithmetic

NARROW = 4
"""So many inputs, or outputs, are few: beyond, kernels for matrices were faster (2 to 12 tried)."""


def dot_general(x: jax.Array, weights: jax.Array, dimensions: Any, **options: Any) -> jax.Array:
    """Multiply [..., in] by weights [in, out], as a `flax.linen.Dense` does, faster on a CPU.

    With `purerl.fast.use_cpu_arithmetic` it has reverse-mode derivatives of any order, and JAX
    refuses forward mode (`jax.jvp`). With an option that is not None, `jax.lax.dot_general` does
    all the work.
    """
    if not cpu_arithmetic() or any(option is not None for option in options.values()):
        return jax.lax.dot_general(x, weights, dimensions, **options)
    return _product(x, weights)


@jax.custom_vjp
def _product(x: jax.Array, weights: jax.Array) -> jax.Array:
    return _fast(x, weights)


def _fast(x: jax.Array, weights: jax.Array) -> jax.Array:
    inputs, outputs = weights.shape
    if 0 < inputs <= NARROW:
        terms = [x[..., i : i + 1] @ weights[i : i + 1] for i in range(inputs)]
        return functools.reduce(jnp.add, terms)
    if 0 < outputs <= NARROW:
        columns = [x @ weights[:, i : i + 1] for i in range(outputs)]
        return jnp.concatenate(columns, axis=-1)
    return x @ weights


def _forward(x: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _product(x, weights), (x, weights)


def _backward(
    inputs: tuple[jax.Array, jax.Array], output_gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, weights = inputs
    count = math.prod(x.shape[:-1])
    rows = x.reshape(count, x.shape[-1])  # [B, in]
    gradients = output_gradient.reshape(count, output_gradient.shape[-1])  # [B, out]
    if weights.shape[0] <= weights.shape[1]:
        of_weights = _in_memory(rows.T) @ gradients
    else:
        of_weights = _in_memory(_in_memory(gradients.T) @ rows).T
    return _fast(output_gradient, weights.T), of_weights


def _in_memory(x: jax.Array) -> jax.Array:
    """Keep XLA from making a transposition part of the product that uses it."""
    return jax.lax.optimization_barrier(x)


_product.defvjp(_forward, _backward)
