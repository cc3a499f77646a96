"""Gradient steps one after another, with the parameters as one vector on a CPU.

In place of

    def scan_gradient_steps(step, params, opt_state, inputs):
        for row in rows(inputs):
            updates, opt_state, metrics = step(params, opt_state, row)
            params = optax.apply_updates(params, updates)

    def flattened(optimizer):
        return optimizer

    def clip_by_global_norm(limit):
        return optax.clip_by_global_norm(limit)

For a CPU, an operation for each of many small arrays costs more than its arithmetic. For a GPU, a
vector would be copied from and to the arrays: 66 instead of 56 GB an update of 2,048 agents
(make gpu-programs ARGS="train/ppo_cartpole --agents 2048"), with as many kernels. Only the norm of
the small arrays together is that of a vector.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from purerl.fast import loops
from purerl.fast.switch import on_cpu
from purerl.types import PyTree

SMALL = 1024
"""Elements. A GPU copies fewer in less time than it takes to launch a kernel."""


def scan_gradient_steps(
    step: Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree, PyTree]],
    params: PyTree,
    opt_state: PyTree,
    inputs: PyTree,
) -> tuple[PyTree, PyTree, PyTree]:
    """Take one gradient step after another, for each row of `inputs` [S, ...].

    `step` maps `(params, opt_state, row)` to `(updates, opt_state, metrics)`.

    Returns:
        the last parameters and optimizer state, and the metrics of all steps [S, ...].
    """
    vector, unravel = ravel_pytree(params) if on_cpu() else (params, lambda params: params)

    def one_step(carry, inputs):
        vector, opt_state = carry
        updates, opt_state, metrics = step(unravel(vector), opt_state, inputs)
        if on_cpu():
            updates, _ = ravel_pytree(updates)
        return (jax.tree.map(jnp.add, vector, updates), opt_state), metrics

    with jax.named_scope("gradient_steps"):
        (vector, opt_state), metrics = loops.scan(one_step, (vector, opt_state), inputs)
    return unravel(vector), opt_state, metrics


def flattened(
    optimizer: optax.GradientTransformationExtraArgs,
) -> optax.GradientTransformationExtraArgs:
    """Return the optimizer; on a CPU it computes with one vector."""
    return optax.flatten(optimizer) if on_cpu() else optimizer


def clip_by_global_norm(limit: jax.Array | float) -> optax.GradientTransformation:
    """Scale updates down to a global norm of at most `limit`."""
    if on_cpu():
        return optax.clip_by_global_norm(limit)

    def update(updates, state, params=None):
        leaves = jax.tree.leaves(updates)
        small = [jnp.ravel(leaf) for leaf in leaves if leaf.size < SMALL]
        large = [leaf for leaf in leaves if leaf.size >= SMALL]
        together = [jnp.concatenate(small)] if small else []
        norm = optax.tree.norm([*large, *together])
        factor = jnp.where(norm < limit, 1.0, limit / norm)
        return jax.tree.map(lambda leaf: factor * leaf, updates), state

    return optax.GradientTransformation(optax.init_empty_state, update)
