"""Orthogonal initialisation without LAPACK.

The usual initialiser calls a QR factorisation. Batched over agents on a CPU with few cores, such
LAPACK calls wait for the thread pool that they themselves occupy and hang for ever; on a GPU they
run one after another. The polar factor of a Gaussian matrix has the same distribution (Haar) and
needs nothing but matrix products.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

NEWTON_SCHULZ_STEPS = 30
"""Each step multiplies a small singular value by 15/8: 30 steps lift 1e-8 to one."""


def polar_factor(matrix: jax.Array) -> jax.Array:
    """Return the nearest matrix with orthonormal columns, by a Newton-Schulz iteration.

        X <- X (15/8 I - 10/8 G + 3/8 G^2),  G = X^T X

    (Higham 2008, "Functions of Matrices", section 8.3; the quintic Pade iteration.)

    Args:
        matrix: [rows, columns] with rows >= columns, of full rank.

    Returns:
        [rows, columns] with X^T X = I up to rounding.
    """
    identity = jnp.eye(matrix.shape[1], dtype=matrix.dtype)

    def step(_, x):
        gram = x.T @ x
        return x @ (1.875 * identity - 1.25 * gram + 0.375 * gram @ gram)

    # Frobenius normalisation puts every singular value into (0, 1], where the iteration converges.
    start = matrix / jnp.linalg.norm(matrix)
    with jax.default_matmul_precision("highest"):
        return jax.lax.fori_loop(0, NEWTON_SCHULZ_STEPS, step, start)


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initialiser of (semi-)orthogonal kernels (Saxe et al. 2014).

    All axes but the last are the kernel's inputs, as in flax. The kernel has orthonormal columns
    (or rows, where it has more columns than rows), times `scale`.

    Raises:
        ValueError: for a shape with fewer than two axes.
    """

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        del out_sharding
        if len(shape) < 2:
            raise ValueError(f"orthogonal needs at least two axes, got shape {tuple(shape)}")
        return _orthogonal(key, tuple(shape), scale, dtype)

    return init


# Traced once for a shape: flax asks for the shapes of parameters whenever a network is applied.
@partial(jax.jit, static_argnames=("shape", "scale", "dtype"))
def _orthogonal(key: jax.Array, shape: tuple[int, ...], scale: float, dtype: Any) -> jax.Array:
    rows, columns = math.prod(shape[:-1]), shape[-1]
    gaussian = jax.random.normal(key, (max(rows, columns), min(rows, columns)), jnp.float32)
    kernel = polar_factor(gaussian)
    kernel = kernel if rows >= columns else kernel.T
    return (scale * kernel).reshape(shape).astype(dtype)
