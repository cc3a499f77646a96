"""A conditional that still skips work when many agents are batched.

In place of

    def cond(predicate, true_fun, false_fun, *operands):
        return jax.lax.cond(predicate, true_fun, false_fun, *operands)

    def either(predicate, true_tree, false_tree):
        return jax.tree.map(partial(jnp.where, predicate), true_tree, false_tree)

For a GPU, the host reads the predicate of every conditional before it can launch more kernels.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.switch import on_cpu
from purerl.types import PyTree


def cond(predicate: jax.Array, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """`jax.lax.cond` that under `jax.vmap` skips `true_fun` where no agent needs it.

    With a batched predicate, `jax.lax.cond` runs both branches for every agent and selects. Agents
    that are batched in the middle of training each have a counter, although they all reach the same
    point of a schedule at the same time. Here the expensive `true_fun` runs if any agent needs it,
    and its result is selected for the agents that do.
    """

    def for_some(*operands):
        if on_cpu():
            return jax.lax.cond(predicate, true_fun, false_fun, *operands)
        return either(predicate, true_fun(*operands), false_fun(*operands))

    return jax.lax.cond(_for_any_agent(predicate), for_some, false_fun, *operands)


def either(predicate: jax.Array, true_tree: PyTree, false_tree: PyTree) -> PyTree:
    """Return one of two trees of the same shapes; a CPU copies neither."""
    if on_cpu():
        return cond(predicate, lambda: true_tree, lambda: false_tree)
    return jax.tree.map(partial(jnp.where, predicate), true_tree, false_tree)


@jax.custom_batching.custom_vmap
def _for_any_agent(predicate: jax.Array) -> jax.Array:
    return predicate


@_for_any_agent.def_vmap
def _reduce(axis_size: int, in_batched: list[bool], predicate: jax.Array) -> tuple[jax.Array, bool]:
    return _for_any_agent(jnp.any(predicate, axis=0)), False
