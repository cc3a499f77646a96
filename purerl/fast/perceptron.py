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
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton

from purerl.fast.kernels import NARROWEST, TILE, Block, call, can_compute, differentiable, padded
from purerl.fast.switch import on_cpu

Layers = tuple[tuple[jax.Array, jax.Array], ...]
"""Kernels [in, out] and biases [out]."""

DERIVATIVES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": lambda y: 1.0 - y * y,
    "relu": lambda y: (y > 0).astype(y.dtype),
}
"""Derivatives of activations, from their results. Both activations map 0 to 0."""
FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
WIDEST, MOST_LAYERS = 64, 3
"""Units of a layer at most, and features: more would not fit a block's registers."""
MOST_ROWS = 512
"""Observations of an agent at most; a block computes them one tile after the other."""
MANY = 64
"""Agents at least. Fewer leave most of a GPU idle, since each is computed by one block."""
FORWARD_TILE = TILE
BACKWARD_TILE = 64
"""Observations in a tile. On an H200, 32 take longer, and so do 128 backwards."""
WARPS, FEW_WARPS = 4, 1
"""Warps of a block; 8 take longer. For at most `NARROWEST` observations, more would only repeat
the work."""


def is_fused(layers: Layers, x: jax.Array, activation: str) -> bool:
    """Return whether a GPU computes this network in one kernel, for enough agents."""
    sizes = [x.shape[-1], *(bias.size for _, bias in layers)]
    return (
        can_compute((layers, x))
        and activation in FUNCTIONS
        and len(layers) <= MOST_LAYERS
        and 0 < min(sizes) <= max(sizes) <= WIDEST
        and 0 < math.prod(x.shape[:-1]) <= MOST_ROWS
    )


def perceptron(layers: Layers, x: jax.Array, activation: str) -> jax.Array:
    """Return the outputs [..., out] for inputs [..., in], as of a network for which `is_fused`.

    The activation is `tanh` or `relu`. It has reverse-mode derivatives of any order.
    """
    plain, forward, backward = (
        functools.partial(part, activation=activation) for part in (_plain, _forward, _backward)
    )
    network = differentiable(plain, forward, backward, MANY)
    return network(layers, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)


def _plain(layers: Layers, x: jax.Array, *, activation: str) -> jax.Array:
    for kernel, bias in layers[:-1]:
        x = FUNCTIONS[activation](x @ kernel + bias[None])
    kernel, bias = layers[-1]
    return x @ kernel + bias[None]


# --- The kernels, for agents [A, ...] -------------------------------------------------------------


def _forward(layers: Layers, x: jax.Array, *, activation: str) -> jax.Array:
    """Return the outputs [A, B, out] for inputs [A, B, in]."""
    kernel = functools.partial(_forward_kernel, activation=activation)
    out = jax.ShapeDtypeStruct((*x.shape[:2], layers[-1][1].shape[-1]), x.dtype)
    return call(kernel, (layers, x), out, _warps(x))


def _backward(
    layers: Layers, x: jax.Array, y: jax.Array, gradient: jax.Array, *, activation: str
) -> tuple[Layers, jax.Array]:
    """Return the gradients of layers and inputs, from that of the outputs y [A, B, out]."""
    kernel = functools.partial(_backward_kernel, activation=activation)
    inputs, outputs = (layers, x, gradient), (layers, x)
    return call(kernel, inputs, outputs, _warps(x))


def _warps(x: jax.Array) -> int:
    return WARPS if x.shape[1] > NARROWEST else FEW_WARPS


def _activated(x: jax.Array, activation: str) -> jax.Array:
    """The activation; a GPU's own tanh has as many bits as the inputs of its products, 11."""
    if activation == "relu":
        return jnp.where(x < 0, 0.0, x)  # Triton's maximum of 0 and NaN is 0
    return jnp.tanh(x) if on_cpu() else triton.approx_tanh(x)


def _forward_kernel(inputs: tuple[Any, Block], out: Block, *, activation: str) -> None:
    layers, x = inputs

    def forward(start, rows, carry):
        y = x.load(start=start, rows=rows)
        for number, (kernel, bias) in enumerate(layers, start=1):
            y = y @ kernel.load() + bias.load()[None]
            y = _activated(y, activation) if number < len(layers) else y
        out.store(y, start=start)
        return carry

    _for_tiles(x, FORWARD_TILE, forward, 0)


def _backward_kernel(
    inputs: tuple[Any, Block, Block], outputs: tuple[Any, Block], *, activation: str
) -> None:
    layers, x, gradient = inputs
    of_layers, of_x = outputs

    def backward(start, rows, sums):
        entering = [x.load(start=start, rows=rows)]
        for kernel, bias in layers[:-1]:
            y = entering[-1] @ kernel.load() + bias.load()[None]
            entering.append(_activated(y, activation))
        back = gradient.load(start=start, rows=rows)
        results = []
        for (kernel, _), (of_kernel, of_bias), y in zip(
            reversed(layers), reversed(sums), reversed(entering), strict=True
        ):
            results.append((of_kernel + y.T @ back, of_bias + jnp.sum(back, axis=0)))
            back = back @ kernel.load().T
            if len(results) < len(layers):
                back = back * DERIVATIVES[activation](y)
        of_x.store(back, start=start)
        return results[::-1]

    sums = [(kernel.zeros(), bias.zeros()) for kernel, bias in layers]
    sums = _for_tiles(x, BACKWARD_TILE, backward, sums)
    for (of_kernel, of_bias), (kernel, bias) in zip(of_layers, sums, strict=True):
        of_kernel.store(kernel)
        of_bias.store(bias)


def _for_tiles(x: Block, rows: int, body: Callable[[Any, int, Any], Any], carry: Any) -> Any:
    """Call `body` with the start of each tile of observations, its rows, and the carry."""
    rows = min(rows, padded(x.shape[0]))
    tiles = -(-x.shape[0] // rows)
    if tiles == 1:
        return body(0, rows, carry)
    return jax.lax.fori_loop(0, tiles, lambda tile, carry: body(tile * rows, rows, carry), carry)
