"""A conditional that still skips work when many agents are batched.

In place of

    def cond(predicate, true_fun, false_fun, *operands):
        return jax.lax.cond(predicate, true_fun, false_fun, *operands)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def cond(predicate: jax.Array, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """`jax.lax.cond` that under `jax.vmap` skips `true_fun` where no agent needs it.

    With a batched predicate, `jax.lax.cond` runs both branches for every agent and selects. Agents
    that are batched in the middle of training each have a counter, although they all reach the same
    point of a schedule at the same time. Here the expensive `true_fun` runs if any agent needs it,
    and its result is selected for the agents that do.
    """

    def for_some(*operands):
        return jax.lax.cond(predicate, true_fun, false_fun, *operands)

    return jax.lax.cond(_for_any_agent(predicate), for_some, false_fun, *operands)


@jax.custom_batching.custom_vmap
def _for_any_agent(predicate: jax.Array) -> jax.Array:
    return predicate


@_for_any_agent.def_vmap
def _reduce(axis_size: int, in_batched: list[bool], predicate: jax.Array) -> tuple[jax.Array, bool]:
    del axis_size, in_batched
    return _for_any_agent(jnp.any(predicate, axis=0)), False
