"""Conditionals, and steps one by one, where a CPU and a GPU need others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.switch import on_cpu
from purerl.types import PyTree


def cond(predicate: jax.Array, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """Return `jax.lax.cond(predicate, true_fun, false_fun, *operands)`, also fast under `jax.vmap`.

    With a batched predicate, `jax.lax.cond` runs both branches for every agent and selects. Agents
    that are batched in the middle of training each have a counter, although they all reach the same
    point of a schedule at the same time. Here the expensive `true_fun` runs if any agent needs it,
    and its result is selected for the agents that do. A GPU selects from both where one would
    do, because the host reads the predicate of a conditional before it can launch more kernels.
    """

    def for_some(*operands):
        if on_cpu():
            return jax.lax.cond(predicate, true_fun, false_fun, *operands)
        return either(predicate, true_fun(*operands), false_fun(*operands))

    return jax.lax.cond(_for_any_agent(predicate), for_some, false_fun, *operands)


def either(predicate: jax.Array, true_tree: PyTree, false_tree: PyTree) -> PyTree:
    """Return one of two trees of the same shapes; a CPU copies neither.

    Equivalent to `jax.tree.map(partial(jnp.where, predicate), true_tree, false_tree)`.
    """
    if on_cpu():
        return cond(predicate, lambda: true_tree, lambda: false_tree)
    return jax.tree.map(partial(jnp.where, predicate), true_tree, false_tree)


@jax.custom_batching.custom_vmap
def _for_any_agent(predicate: jax.Array) -> jax.Array:
    return predicate


@_for_any_agent.def_vmap
def _reduce(axis_size: int, in_batched: list[bool], predicate: jax.Array) -> tuple[jax.Array, bool]:
    return _for_any_agent(jnp.any(predicate, axis=0)), False


def map_steps(f: Callable[[PyTree], PyTree], xs: PyTree) -> PyTree:
    """Return `jax.vmap(f)(xs)` for steps [T, ...], on a CPU one after another.

    Activations of one step fit in its cache, those of a whole rollout do not.
    """
    return jax.lax.map(f, xs) if on_cpu() else jax.vmap(f)(xs)
