"""A multilayer perceptron as one kernel on a GPU, for many agents side by side.

In place of

    def perceptron(layers, x, activation):
        for kernel, bias in layers[:-1]:
            x = activation(x @ kernel + bias)
        kernel, bias = layers[-1]
        return x @ kernel + bias

XLA makes kernels of each layer, which write the activations of all agents to memory and read them
again. Here a block of threads computes all layers of one agent, and keeps its activations in
registers; backwards it computes them a second time. The kernels are Triton's, through JAX's Pallas.
With `JAX_DEFAULT_MATMUL_PRECISION` set, as for products in full float32, XLA computes the network.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from purerl.fast.switch import on_cpu, on_gpu
from purerl.types import PyTree

Layers = tuple[tuple[jax.Array, jax.Array], ...]
"""Kernels [in, out] and biases [out]."""

DERIVATIVES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": lambda y: 1.0 - y * y,
    "relu": lambda y: (y > 0).astype(y.dtype),
}
"""Derivatives of activations, from their results. Both activations map 0 to 0."""
FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
WIDEST = 64
"""Units of a layer at most, and inputs: more would not fit a block's registers."""
MOST_ROWS = 512
"""Inputs of an agent at most; a block computes them one tile after the other."""
MANY = 64
"""Agents at least. Fewer leave most of a GPU idle, since each is computed by one block."""
FORWARD_TILE, BACKWARD_TILE = 128, 64
"""Inputs in a tile: of 32, 64 and 128, with 4, 8 and 16 warps, the fastest on an H200."""
WARPS, FEW_WARPS = 4, 1
"""Warps of a block; for at most `NARROWEST` inputs, more would only repeat the work."""
NARROWEST = 16
"""Smallest size of a matrix in Triton's products; smaller ones are filled with zeros."""


def is_fused(layers: Layers, x: jax.Array, activation: str) -> bool:
    """Return whether a GPU computes this network in one kernel, for enough agents."""
    sizes = [x.shape[-1], *(bias.size for _, bias in layers)]
    return (
        on_gpu()
        and jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
        and activation in FUNCTIONS
        and 0 < min(sizes) <= max(sizes) <= WIDEST
        and 0 < math.prod(x.shape[:-1]) <= MOST_ROWS
        and all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves((layers, x)))
    )


def perceptron(layers: Layers, x: jax.Array, activation: str) -> jax.Array:
    """Return the outputs [..., out] for inputs [..., in], as of a network for which `is_fused`.

    The activation is `tanh` or `relu`. It has reverse-mode derivatives of any order.
    """
    rows = x.reshape(-1, x.shape[-1])
    return _functions(activation)(layers, rows).reshape(*x.shape[:-1], -1)


@functools.cache
def _functions(activation: str) -> Callable[[Layers, jax.Array], jax.Array]:
    """Return `(layers, x [B, in]) -> [B, out]`.

    A derivative of the kernels themselves is that of the plain function.
    """
    plain = functools.partial(_plain, activation=activation)

    def plain_backward(layers, x, gradient):
        return jax.vjp(plain, layers, x)[1](gradient)

    forward = _differentiable(plain, functools.partial(_forward, activation=activation))
    backward = _differentiable(plain_backward, functools.partial(_backward, activation=activation))

    network = jax.custom_vjp(forward)
    network.defvjp(
        lambda layers, x: (forward(layers, x), (layers, x)),
        lambda inputs, gradient: backward(*inputs, gradient),
    )
    return network


def _plain(layers: Layers, x: jax.Array, *, activation: str) -> jax.Array:
    for kernel, bias in layers[:-1]:
        x = FUNCTIONS[activation](x @ kernel + bias[None])
    kernel, bias = layers[-1]
    return x @ kernel + bias[None]


def _differentiable(plain: Callable[..., Any], many: Callable[..., Any]) -> Callable[..., Any]:
    """Return `plain`, computed by `many` for many agents and differentiated as `plain`."""
    function = jax.custom_jvp(_for_agents(plain, many, None))
    function.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return function


def _for_agents(
    one: Callable[..., Any], many: Callable[..., Any], agents: int | None
) -> Callable[..., Any]:
    """Return a function of arrays [agents, ...], or of one agent if `agents` is None.

    Under `jax.vmap`, also nested, it knows how many agents there are. What shares its layers is one
    agent.
    """
    plain = one if agents is None else jax.vmap(one)

    @jax.custom_batching.custom_vmap
    def function(*arguments):
        return many(*arguments) if (agents or 0) >= MANY else plain(*arguments)

    @function.def_vmap
    def _batched(size, batched, *arguments):
        if not all(jax.tree.leaves(batched)):
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
            result = jax.vmap(plain, axes)(*arguments)
        elif agents is None:
            result = _for_agents(one, many, size)(*arguments)
        else:
            arguments = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), arguments)
            result = _for_agents(one, many, size * agents)(*arguments)
            result = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), result)
        return result, jax.tree.map(lambda leaf: True, result)

    return function


# --- The kernels, for agents [A, ...] -------------------------------------------------------------


def _forward(layers: Layers, x: jax.Array, *, activation: str) -> jax.Array:
    """Return the outputs [A, B, out] for inputs [A, B, in]."""
    kernel = functools.partial(_forward_kernel, activation=activation)
    out = jax.ShapeDtypeStruct((*x.shape[:2], layers[-1][1].shape[-1]), x.dtype)
    return _call(kernel, (layers, x), out, x.shape[1])


def _backward(
    layers: Layers, x: jax.Array, gradient: jax.Array, *, activation: str
) -> tuple[Layers, jax.Array]:
    """Return the gradients of layers and inputs from those of the outputs [A, B, out]."""
    kernel = functools.partial(_backward_kernel, activation=activation)
    inputs, outputs = (layers, x, gradient), (layers, x)
    result: tuple[Layers, jax.Array] = _call(kernel, inputs, outputs, x.shape[1])
    return result


def _call(kernel: Callable[..., None], inputs: PyTree, outputs: PyTree, rows: int) -> Any:
    """Run a kernel for each agent, whose arguments are trees of blocks of its arrays."""
    inputs, structure = jax.tree.flatten(inputs)
    outputs, out_structure = jax.tree.flatten(outputs)
    arrays = [*inputs, *outputs]

    def flat_kernel(*references):
        blocks = [Block(r, leaf.shape[1:]) for r, leaf in zip(references, arrays, strict=True)]
        ins, outs = blocks[: len(inputs)], blocks[len(inputs) :]
        kernel(jax.tree.unflatten(structure, ins), jax.tree.unflatten(out_structure, outs))

    def spec(leaf):
        shape = tuple(map(_filled, leaf.shape[1:]))
        return pl.BlockSpec((None, *shape), lambda agent: (agent, *(0 for _ in shape)))

    results = pl.pallas_call(
        flat_kernel,
        grid=(inputs[0].shape[0],),
        in_specs=list(map(spec, inputs)),
        out_specs=list(map(spec, outputs)),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in outputs],
        compiler_params=triton.CompilerParams(
            num_warps=WARPS if rows > NARROWEST else FEW_WARPS, num_stages=1
        ),
        interpret=on_cpu(),
    )(*inputs)
    return jax.tree.unflatten(out_structure, results)


def _filled(size: int) -> int:
    """Return a size with zeros: a power of two, or whole tiles."""
    if size <= FORWARD_TILE:
        return max(pl.next_power_of_2(size), NARROWEST)
    return -(-size // FORWARD_TILE) * FORWARD_TILE


class Block(NamedTuple):
    """One agent's array in the memory of the GPU."""

    reference: Any
    shape: tuple[int, ...]
    """without the zeros"""

    def load(self, start: Any = 0, rows: int | None = None) -> jax.Array:
        """Return so many rows, by default all of them, filled with zeros."""
        part, mask = self._part(start, rows)
        return triton.load(part, mask=mask, other=0.0)

    def store(self, values: jax.Array, start: Any = 0) -> None:
        """Write rows, leaving out what only fills them."""
        part, mask = self._part(start, values.shape[0])
        triton.store(part, values, mask=mask)

    def zeros(self) -> jax.Array:
        """Return zeros in place of its values."""
        return jnp.zeros(self.reference.shape, jnp.float32)

    def _part(self, start: Any, rows: int | None) -> tuple[Any, jax.Array]:
        rows = rows or _filled(self.shape[0])
        mask = start + jnp.arange(rows) < self.shape[0]
        if len(self.shape) == 1:
            return self.reference.at[pl.ds(start, rows)], mask
        columns = jnp.arange(_filled(self.shape[1])) < self.shape[1]
        return self.reference.at[pl.ds(start, rows), :], mask[:, None] & columns[None, :]


def _activated(x: jax.Array, activation: str) -> jax.Array:
    """The activation; a GPU's own tanh has as many bits as the inputs of its products, 11."""
    if activation == "tanh" and not on_cpu():
        return triton.approx_tanh(x)
    return FUNCTIONS[activation](x)


def _forward_kernel(inputs: tuple[Any, Block], out: Block, *, activation: str) -> None:
    layers, x = inputs

    def forward(start, rows, carry):
        y = x.load(start, rows)
        for number, (kernel, bias) in enumerate(layers, start=1):
            y = y @ kernel.load() + bias.load()[None]
            y = _activated(y, activation) if number < len(layers) else y
        out.store(y, start)
        return carry

    _for_tiles(x, FORWARD_TILE, forward, 0)


def _backward_kernel(
    inputs: tuple[Any, Block, Block], outputs: tuple[Any, Block], *, activation: str
) -> None:
    layers, x, gradient = inputs
    of_layers, of_x = outputs

    def backward(start, rows, sums):
        entering = [x.load(start, rows)]
        for kernel, bias in layers[:-1]:
            y = entering[-1] @ kernel.load() + bias.load()[None]
            entering.append(_activated(y, activation))
        back = gradient.load(start, rows)
        results = []
        for (kernel, _), (of_kernel, of_bias), y in zip(
            reversed(layers), reversed(sums), reversed(entering), strict=True
        ):
            results.append((of_kernel + y.T @ back, of_bias + jnp.sum(back, axis=0)))
            back = back @ kernel.load().T
            if len(results) < len(layers):
                back = back * DERIVATIVES[activation](y)
        of_x.store(back, start)
        return results[::-1]

    sums = [(kernel.zeros(), bias.zeros()) for kernel, bias in layers]
    sums = _for_tiles(x, BACKWARD_TILE, backward, sums)
    for (of_kernel, of_bias), (kernel, bias) in zip(of_layers, sums, strict=True):
        of_kernel.store(kernel)
        of_bias.store(bias)


def _for_tiles(x: Block, rows: int, body: Callable[[Any, int, Any], Any], carry: Any) -> Any:
    """Call `body` with the start of each tile of an agent's inputs, its rows, and the carry."""
    rows = min(rows, _filled(x.shape[0]))
    tiles = -(-x.shape[0] // rows)
    if tiles == 1:
        return body(0, rows, carry)
    return jax.lax.fori_loop(0, tiles, lambda tile, carry: body(tile * rows, rows, carry), carry)
