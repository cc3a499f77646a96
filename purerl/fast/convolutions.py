"""Convolutions that a CPU computes fast, gradients too.

Inside a loop, XLA's gradient of a convolution is slow on a CPU, and slower still if each of several
agents has its own kernel. Here the window of the kernel at every place becomes a row, and the rows
are multiplied by the kernel:

    y[i, j] = x[i : i + height, j : j + width].ravel() @ kernel.reshape(-1, out)
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.products import dot_general
from purerl.fast.switch import cpu_arithmetic

LAST_BY_FIRST = (((3,), (0,)), ((), ()))
"""The dimensions that are multiplied."""


def conv_general_dilated(
    x: jax.Array, kernel: jax.Array, strides: Any, padding: Any, **options: Any
) -> jax.Array:
    """Convolve [B, H, W, in] with [h, w, in, out], as a `flax.linen.Conv` does, faster on a CPU.

    With `purerl.fast.use_cpu_arithmetic`, strides of 1 and no padding, it is a product that has the
    derivatives of `purerl.fast.products`. Otherwise `jax.lax.conv_general_dilated` does all the
    work.
    """
    if not cpu_arithmetic() or padding != "VALID" or set(strides) != {1}:
        return jax.lax.conv_general_dilated(x, kernel, strides, padding, **options)
    height, width, inputs, outputs = kernel.shape
    rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1
    windows = [x[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)]
    weights = kernel.reshape(height * width * inputs, outputs)
    return dot_general(jnp.concatenate(windows, axis=-1), weights, LAST_BY_FIRST)
