"""A scan that launches fewer kernels on a GPU.

In place of

    carry, ys = jax.lax.scan(f, init, xs)

On a GPU, a short step costs what its kernels take to launch. So steps are unrolled, and all outputs
of one type are stacked as one array, with one kernel instead of one for each.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.switch import on_cpu
from purerl.types import PyTree


def scan(
    f: Callable[[Any, Any], tuple[Any, PyTree]],
    init: Any,
    xs: PyTree,
    *,
    unroll: int = 1,
    reverse: bool = False,
) -> tuple[Any, PyTree]:
    """`jax.lax.scan`, with the same results.

    Args:
        f: `(carry, x) -> carry, y`.
        init: carry before the first step.
        xs: [T, ...] inputs.
        unroll: steps in one iteration of the loop on a GPU; a CPU takes one.
        reverse: from the last input to the first.
    """
    if on_cpu():
        return jax.lax.scan(f, init, xs, reverse=reverse)
    x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), xs)
    packing = Packing(jax.eval_shape(f, init, x)[1])

    def packed(carry, x):
        carry, y = f(carry, x)
        return carry, packing.pack(y)

    carry, ys = jax.lax.scan(packed, init, xs, reverse=reverse, unroll=unroll)
    return carry, jax.vmap(packing.unpack)(ys)


class Packing:
    """A tree of arrays as one vector for each of their types."""

    def __init__(self, shapes: PyTree):
        self.leaves, self.structure = jax.tree.flatten(shapes)
        self.types = list(dict.fromkeys(leaf.dtype for leaf in self.leaves))

    def pack(self, tree: PyTree) -> list[jax.Array]:
        """Return a vector for each of `types`."""
        leaves = jax.tree.leaves(tree)
        return [
            jnp.concatenate([jnp.ravel(leaf) for leaf in leaves if leaf.dtype == dtype])
            for dtype in self.types
        ]

    def unpack(self, vectors: list[jax.Array]) -> PyTree:
        """Return the tree that was packed."""
        rest = dict(zip(self.types, vectors, strict=True))
        leaves = []
        for shape in self.leaves:
            leaf, rest[shape.dtype] = jnp.split(rest[shape.dtype], [shape.size])
            leaves.append(leaf.reshape(shape.shape))
        return jax.tree.unflatten(self.structure, leaves)
