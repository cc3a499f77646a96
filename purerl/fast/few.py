"""Reductions over a short last axis, such as actions, that a GPU fuses with other operations.

In place of

    def log_softmax(x):
        return jax.nn.log_softmax(x)

    def total(x):
        return jnp.sum(x, axis=-1)

    def argmax(x):
        return jnp.argmax(x, axis=-1)

XLA makes a kernel of every reduction, and two or three of a softmax. Over few elements it is
computed here element by element.
"""

import functools

import jax
import jax.numpy as jnp

from purerl.fast.switch import on_cpu

FEW = 8
"""Elements at most."""


def log_softmax(x: jax.Array) -> jax.Array:
    """Return the logarithm of the softmax over the last axis."""
    return _log_softmax(x) if _is_short(x) else jax.nn.log_softmax(x)


def total(x: jax.Array) -> jax.Array:
    """Return the sum over the last axis."""
    return _total(x) if _is_short(x) else jnp.sum(x, axis=-1)


def argmax(x: jax.Array) -> jax.Array:
    """Return the first index of the largest element of the last axis, int32."""
    if not _is_short(x):
        return jnp.argmax(x, axis=-1).astype(jnp.int32)
    best, index = x[..., 0], jnp.zeros(x.shape[:-1], jnp.int32)
    for i, column in enumerate(_columns(x)[1:], start=1):
        index = jnp.where(column > best, i, index)
        best = jnp.maximum(best, column)
    return index


@jax.custom_jvp
def _log_softmax(x: jax.Array) -> jax.Array:
    x = x - functools.reduce(jnp.maximum, _columns(x))[..., None]
    return x - jnp.log(_total(jnp.exp(x)))[..., None]


@jax.custom_jvp
def _total(x: jax.Array) -> jax.Array:
    return functools.reduce(jnp.add, _columns(x))


# Backwards, slices take more kernels than reductions.
_log_softmax.defjvp(functools.partial(jax.jvp, jax.nn.log_softmax))
_total.defjvp(functools.partial(jax.jvp, functools.partial(jnp.sum, axis=-1)))


def _is_short(x: jax.Array) -> bool:
    return not on_cpu() and 0 < x.shape[-1] <= FEW


def _columns(x: jax.Array) -> list[jax.Array]:
    return [x[..., i] for i in range(x.shape[-1])]
