"""Kernels in which a block of a GPU's threads computes for one agent, in Triton.

`differentiable` turns kernels into a function of one agent under `jax.vmap`. On a CPU, Pallas
interprets kernels, which is for tests.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from purerl.fast.switch import on_cpu
from purerl.types import PyTree

NARROWEST = 16
"""Smallest size of a matrix in Triton's products; smaller ones are padded with zeros."""
TILE = 128
"""Rows beyond which a block loads a matrix in parts."""


def can_compute(arrays: PyTree) -> bool:
    """Return whether kernels can compute with these arrays, in the precision that is wanted."""
    return (
        jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
        and all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(arrays))
    )


def differentiable(
    plain: Callable[..., Any],
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    fewest: int,
) -> Callable[..., Any]:
    """Return `plain`, computed by kernels under `jax.vmap`, and so are its gradients.

    To differentiate a second time, JAX uses `plain`.

    Args:
        plain: function of one agent's arrays.
        forward: the same function of arrays [agents, ...], as by `call`.
        backward: `(*arguments, result, gradient) -> gradients` of the arguments, [agents, ...].
        fewest: agents for whom kernels are used; what agents share is computed by `plain`.
    """

    def plain_backward(*arguments):
        *inputs, _, gradient = arguments
        return jax.vjp(plain, *inputs)[1](gradient)

    forward = _by_kernel(plain, forward, fewest)
    backward = _by_kernel(plain_backward, backward, fewest)

    def forward_and_inputs(*inputs):
        result = forward(*inputs)
        return result, (*inputs, result)

    function = jax.custom_vjp(forward)
    function.defvjp(forward_and_inputs, lambda inputs, gradient: backward(*inputs, gradient))
    return function


def _by_kernel(
    plain: Callable[..., Any], many: Callable[..., Any], fewest: int
) -> Callable[..., Any]:
    """Return `plain`, computed by `many` under `jax.vmap` and differentiated as `plain`."""
    function = jax.custom_jvp(_for_agents(plain, many, fewest, None))
    function.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return function


def _for_agents(
    one: Callable[..., Any], many: Callable[..., Any], fewest: int, agents: int | None
) -> Callable[..., Any]:
    """Return a function of arrays [agents, ...], or of one agent if `agents` is None.

    Under `jax.vmap`, also nested, it knows how many agents there are.
    """
    plain = one if agents is None else jax.vmap(one)

    @jax.custom_batching.custom_vmap
    def function(*arguments):
        if (agents or 1) < fewest:
            return plain(*arguments)
        if agents is not None:
            return many(*arguments)
        result = many(*jax.tree.map(lambda leaf: leaf[None], arguments))
        return jax.tree.map(lambda leaf: leaf[0], result)

    @function.def_vmap
    def _batched(size, batched, *arguments):
        if not all(jax.tree.leaves(batched)):
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
            result = jax.vmap(plain, axes)(*arguments)
        elif agents is None:
            result = _for_agents(one, many, fewest, size)(*arguments)
        else:
            arguments = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), arguments)
            result = _for_agents(one, many, fewest, size * agents)(*arguments)
            result = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), result)
        return result, jax.tree.map(lambda leaf: True, result)

    return function


def call(kernel: Callable[..., None], inputs: PyTree, outputs: PyTree, warps: int) -> Any:
    """Run a kernel for each agent; return its results, a tree of arrays [agents, ...].

    Args:
        kernel: `(inputs, outputs)`, trees of `Block`s.
        inputs: arrays [agents, ...].
        outputs: arrays, or shapes and types, of the results.
        warps: of 32 threads each, in a block.
    """
    inputs, structure = jax.tree.flatten(inputs)
    outputs, out_structure = jax.tree.flatten(outputs)
    arrays = [*inputs, *outputs]

    def flat_kernel(*references):
        blocks = [Block(r, leaf.shape[1:]) for r, leaf in zip(references, arrays, strict=True)]
        ins, outs = blocks[: len(inputs)], blocks[len(inputs) :]
        kernel(jax.tree.unflatten(structure, ins), jax.tree.unflatten(out_structure, outs))

    def spec(leaf):
        shape = (*leaf.shape[1:-2], *map(padded, leaf.shape[1:][-2:]))
        return pl.BlockSpec((None, *shape), lambda agent: (agent, *(0 for _ in shape)))

    results = pl.pallas_call(
        flat_kernel,
        grid=(inputs[0].shape[0],),
        in_specs=list(map(spec, inputs)),
        out_specs=list(map(spec, outputs)),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in outputs],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=on_cpu(),
    )(*inputs)
    return jax.tree.unflatten(out_structure, results)


def padded(size: int) -> int:
    """Return the size of an axis with its padding: a power of two, or whole tiles."""
    if size <= TILE:
        return max(pl.next_power_of_2(size), NARROWEST)
    return -(-size // TILE) * TILE


class Block(NamedTuple):
    """One agent's array in the memory of the GPU."""

    reference: Any
    shape: tuple[int, ...]
    """without padding"""

    def load(self, *index: Any, start: Any = 0, rows: int | None = None) -> jax.Array:
        """Return a matrix or vector, padded with zeros.

        Args:
            index: of the axes before the last two, or before the last one.
            start: first row.
            rows: how many; by default all.
        """
        part, mask = self._part(index, start, rows)
        return triton.load(part, mask=mask, other=0.0)

    def store(self, values: jax.Array, *index: Any, start: Any = 0) -> None:
        """Write what `load` would return."""
        part, mask = self._part(index, start, values.shape[0])
        triton.store(part, values, mask=mask)

    def zeros(self, *index: Any) -> jax.Array:
        """Return zeros in place of what `load` would return."""
        return jnp.zeros(self.reference.shape[len(index) :], jnp.float32)

    def _part(self, index: tuple[Any, ...], start: Any, rows: int | None) -> tuple[Any, jax.Array]:
        index = tuple(jnp.asarray(each, jnp.int32) for each in index)
        count, *columns = self.shape[len(index) :]
        rows = rows or padded(count)
        mask = start + jnp.arange(rows) < count
        if not columns:
            return self.reference.at[(*index, pl.ds(start, rows))], mask
        real = jnp.arange(padded(columns[0])) < columns[0]
        part = self.reference.at[(*index, pl.ds(start, rows), slice(None))]
        return part, mask[:, None] & real[None, :]
