"""Loops and gradient steps, laid out for a CPU or for a GPU.

On a CPU, an operation for each of many small arrays costs more than its arithmetic, so gradient
steps compute with one vector of parameters. On a GPU, a short step costs what its kernels take to
launch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from purerl.fast.switch import on_cpu
from purerl.types import PyTree

SMALL = 1024
"""Elements. A GPU copies fewer in less time than it takes to launch a kernel."""


def scan(
    f: Callable[[Any, Any], tuple[Any, PyTree]],
    init: Any,
    xs: PyTree,
    *,
    unroll: int = 1,
    reverse: bool = False,
) -> tuple[Any, PyTree]:
    """Return `jax.lax.scan(f, init, xs, reverse=reverse)`, with fewer kernels on a GPU.

    There, `unroll` steps are one iteration, and all outputs of one type are stacked as one array,
    with one kernel instead of one for each.
    """
    if on_cpu():
        return jax.lax.scan(f, init, xs, reverse=reverse)
    x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), xs)
    pack, unpack = _packing(jax.eval_shape(f, init, x)[1])

    def packed(carry, x):
        carry, y = f(carry, x)
        return carry, pack(y)

    carry, ys = jax.lax.scan(packed, init, xs, reverse=reverse, unroll=unroll)
    return carry, jax.vmap(unpack)(ys)


def _packing(shapes: PyTree) -> tuple[Callable[[PyTree], list[jax.Array]], Callable[..., PyTree]]:
    """Return functions from a tree of arrays to one vector for each of their types, and back."""
    places, structure = jax.tree.flatten(shapes)
    types = list(dict.fromkeys(each.dtype for each in places))

    def pack(tree):
        leaves = jax.tree.leaves(tree)
        groups = [[jnp.ravel(leaf) for leaf in leaves if leaf.dtype == dtype] for dtype in types]
        return list(map(jnp.concatenate, groups))

    def unpack(vectors):
        rest, leaves = dict(zip(types, vectors, strict=True)), []
        for each in places:
            leaf, rest[each.dtype] = jnp.split(rest[each.dtype], [each.size])
            leaves.append(leaf.reshape(each.shape))
        return jax.tree.unflatten(structure, leaves)

    return pack, unpack


def scan_gradient_steps(
    step: Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree, PyTree]],
    params: PyTree,
    opt_state: PyTree,
    inputs: PyTree,
) -> tuple[PyTree, PyTree, PyTree]:
    """Take one gradient step after another, for each row of `inputs` [S, ...].

    `step` maps `(params, opt_state, row)` to `(updates, opt_state, metrics)`. Equivalent to

        for row in rows(inputs):
            updates, opt_state, metrics = step(params, opt_state, row)
            params = optax.apply_updates(params, updates)

    with the parameters as one vector on a CPU. For a GPU, a vector would be copied from and to the
    arrays: 66 instead of 56 GB an update of 2,048 agents (make gpu-programs
    ARGS="train/ppo_cartpole --agents 2048"), with as many kernels.

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
        (vector, opt_state), metrics = scan(one_step, (vector, opt_state), inputs)
    return unravel(vector), opt_state, metrics


def flattened(
    optimizer: optax.GradientTransformationExtraArgs,
) -> optax.GradientTransformationExtraArgs:
    """Return `optimizer`; on a CPU it computes with one vector, which changes only rounding."""
    return optax.flatten(optimizer) if on_cpu() else optimizer


def clip_by_global_norm(limit: jax.Array | float) -> optax.GradientTransformation:
    """Scale updates down to a global norm of at most `limit`: `optax.clip_by_global_norm(limit)`.

    On a GPU, the norm of the small arrays together is that of a vector.
    """
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
