"""Orthogonal initialisation without LAPACK.

In place of

    def orthogonal(scale):
        return jax.nn.initializers.orthogonal(scale)

with the same distribution of kernels.

The usual initialiser calls a QR factorisation. Batched over agents on a CPU with few cores, such
LAPACK calls deadlock, because they wait for the thread pool that they occupy; on a GPU they run
one after another. The polar factor of a Gaussian matrix has the same distribution (Haar) and
only needs matrix products.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

NEWTON_SCHULZ_COEFFICIENTS = (
    *((3.85154, -2.87598, 0.55408),) * 12,
    (3.0354, -2.27405, 0.48583),
    (2.10425, -1.4863, 0.39931),
    (1.875, -1.25, 0.375),
    (1.875, -1.25, 0.375),
)
"""Coefficients of a x + b x^3 + c x^5, one row per step. All steps map [2e-8, 1.95] to one.

The first polynomial is the minimax approximation of one on [0.05, 1.95], which it maps into
[0.19, 1.81]; its repetitions multiply smaller values by 3.85 until they reach this interval. The
next two are minimax on the remaining intervals (as in Amsel et al. 2025, "The Polar Express"). The
last two are Pade approximants, which triple the number of correct digits.
"""


def polar_factor(matrix: jax.Array) -> jax.Array:
    """Return the nearest matrix with orthonormal columns, by a Newton-Schulz iteration.

        X <- X (a I + b G + c G^2),  G = X^T X

    (Higham 2008, "Functions of Matrices", section 8.3, with other coefficients in each step.) The
    matrix [rows, columns] has full rank and rows >= columns; X^T X = I up to rounding.
    """
    identity = jnp.eye(matrix.shape[1], dtype=matrix.dtype)

    def step(x, coefficients):
        a, b, c = coefficients
        gram = x.T @ x
        return x @ (a * identity + b * gram + c * gram @ gram), None

    # The Frobenius norm bounds the largest singular value, so no singular value exceeds 1.95.
    start = matrix * (1.95 / jnp.linalg.norm(matrix))
    with jax.default_matmul_precision("highest"):
        factor, _ = jax.lax.scan(step, start, jnp.asarray(NEWTON_SCHULZ_COEFFICIENTS, matrix.dtype))
    return factor


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initialiser of (semi-)orthogonal kernels (Saxe et al. 2014).

    All axes but the last are the kernel's inputs, as in flax. The kernel has orthonormal columns
    (or rows, where it has more columns than rows), times `scale`.
    """

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        return _orthogonal(key, tuple(shape), scale, dtype)

    return init


# Traced once per shape: flax evaluates the shapes of parameters whenever a network is applied.
@partial(jax.jit, static_argnames=("shape", "scale", "dtype"))
def _orthogonal(key: jax.Array, shape: tuple[int, ...], scale: float, dtype: Any) -> jax.Array:
    rows, columns = math.prod(shape[:-1]), shape[-1]
    gaussian = jax.random.normal(key, (max(rows, columns), min(rows, columns)), jnp.float32)
    kernel = polar_factor(gaussian)
    kernel = kernel if rows >= columns else kernel.T
    return (scale * kernel).reshape(shape).astype(dtype)
