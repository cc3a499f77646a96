"""Arithmetic of networks: JAX's, or equivalents that a CPU or a GPU computes faster.

The platform decides (`purerl.fast.switch`): the functions for CPUs need `use_cpu_arithmetic`, those
for GPUs reductions over few elements. Elsewhere each function is the plain line in its docstring.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

from purerl.fast.switch import cpu_arithmetic, on_cpu

# XLA's rational approximation for float32 (xla/codegen/intrinsic, after Eigen's ptanh), highest
# power of x^2 first: tanh x = x N(x^2) / D(x^2) up to LIMIT, where float32 is all but 1.
NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
DENOMINATOR = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)
LIMIT = 7.99881172180175781
NARROW = 4
"""So many inputs, or outputs, are few: beyond, kernels for matrices were faster (2 to 12 tried)."""
FEW = 8
"""Elements at most of a reduction that is computed element by element."""
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


# --- Activations ----------------------------------------------------------------------------------


def tanh(x: jax.Array) -> jax.Array:
    """Compute the hyperbolic tangent, `jnp.tanh(x)`, in two thirds of the time on a CPU.

    In float32 and with CPU arithmetic, this is the arithmetic of `jnp.tanh` without its branch for
    |x| < 4e-4. Once compiled, larger |x| give the same bits, smaller |x| a relative error of at
    most 3e-7, |x| < 2.5e-36 gives 0, and NaN stays NaN. Supports derivatives of any order in
    forward and reverse mode.
    """
    if jnp.result_type(x) != jnp.float32 or not cpu_arithmetic():
        return jnp.tanh(x)
    return _rational(x)


@jax.custom_jvp
@jax.named_scope("tanh")  # for profiles
@partial(jax.jit, inline=True)  # traced once per shape
def _rational(x: jax.Array) -> jax.Array:
    x = jnp.where(x < -LIMIT, -LIMIT, jnp.where(x > LIMIT, LIMIT, x))  # keeps NaN
    square = x * x
    return x * _polynomial(NUMERATOR, square) / _polynomial(DENOMINATOR, square)


@_rational.defjvp
def _derivative(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    y = _rational(*primals)
    return y, tangents[0] * (1.0 - y * y)


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
}
"""Activation functions by the names that configs use."""


# --- Layers ---------------------------------------------------------------------------------------


def dot_general(x: jax.Array, weights: jax.Array, dimensions: Any, **options: Any) -> jax.Array:
    """Multiply [..., in] by weights [in, out] as `jax.lax.dot_general(...)` does, for a `Dense`.

    XLA's fast kernels for CPUs read matrices in the order of memory. The gradient of the weights
    is a product with a transposed matrix, which they do not support, so the smaller matrix is
    transposed first. The kernels are slow for matrices with few columns or rows. With few outputs,
    a product is computed as products with vectors; with few inputs, as a sum of outer products,
    which XLA fuses with the activation.

    With CPU arithmetic it has reverse-mode derivatives of any order, and JAX refuses forward mode
    (`jax.jvp`). With an option that is not None, `jax.lax.dot_general` does all the work.
    """
    if not cpu_arithmetic() or any(option is not None for option in options.values()):
        return jax.lax.dot_general(x, weights, dimensions, **options)
    return _product(x, weights)


@jax.custom_vjp
def _product(x: jax.Array, weights: jax.Array) -> jax.Array:
    return _fast(x, weights)


def _fast(x: jax.Array, weights: jax.Array) -> jax.Array:
    inputs, outputs = weights.shape
    if 0 < inputs <= NARROW:
        terms = [x[..., i : i + 1] @ weights[i : i + 1] for i in range(inputs)]
        return functools.reduce(jnp.add, terms)
    if 0 < outputs <= NARROW:
        columns = [x @ weights[:, i : i + 1] for i in range(outputs)]
        return jnp.concatenate(columns, axis=-1)
    return x @ weights


def _forward(x: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _product(x, weights), (x, weights)


def _backward(
    inputs: tuple[jax.Array, jax.Array], output_gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, weights = inputs
    count = math.prod(x.shape[:-1])
    rows = x.reshape(count, x.shape[-1])  # [B, in]
    gradients = output_gradient.reshape(count, output_gradient.shape[-1])  # [B, out]
    if weights.shape[0] <= weights.shape[1]:
        of_weights = _in_memory(rows.T) @ gradients
    else:
        of_weights = _in_memory(_in_memory(gradients.T) @ rows).T
    return _fast(output_gradient, weights.T), of_weights


def _in_memory(x: jax.Array) -> jax.Array:
    """Keep XLA from making a transposition part of the product that uses it."""
    return jax.lax.optimization_barrier(x)


_product.defvjp(_forward, _backward)


def conv_general_dilated(
    x: jax.Array, kernel: jax.Array, strides: Any, padding: Any, **options: Any
) -> jax.Array:
    """Convolve [B, H, W, in] with [h, w, in, out] as `jax.lax.conv_general_dilated(...)` does.

    Inside a loop, XLA's gradient of a convolution is slow on a CPU, and slower still if each of
    several agents has its own kernel. With CPU arithmetic, and without dilation, the window of the
    kernel at every place becomes a row, and the rows are multiplied by the kernel, with the
    derivatives of `dot_general`:

        y[i, j] = x[i : i + height, j : j + width].ravel() @ kernel.reshape(-1, out)
    """
    if not cpu_arithmetic() or x.ndim != 4 or not _is_plain(options):
        return jax.lax.conv_general_dilated(x, kernel, strides, padding, **options)
    height, width, inputs, outputs = kernel.shape
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(x.shape[1:3], (height, width), strides, padding)
    x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    down, right = x.shape[1] - height + 1, x.shape[2] - width + 1  # places of the kernel
    windows = [
        x[:, i : i + down : strides[0], j : j + right : strides[1]]
        for i in range(height)
        for j in range(width)
    ]
    weights = kernel.reshape(height * width * inputs, outputs)
    dimensions = ((3,), (0,)), ((), ())  # the last one of the windows, the first of the weights
    return dot_general(jnp.concatenate(windows, axis=-1), weights, dimensions)


PLAIN = {"lhs_dilation": (1, 1), "rhs_dilation": (1, 1), "feature_group_count": 1}
"""Options of a convolution without dilation and groups; flax has one layout of dimensions."""


def _is_plain(options: dict[str, Any]) -> bool:
    given = {name: value for name, value in options.items() if value is not None}
    return all(PLAIN.get(name) == given[name] for name in given if name != "dimension_numbers")


# --- Reductions over a short last axis, such as actions -------------------------------------------
# For a GPU, XLA makes a kernel of every reduction, and two or three of a softmax.


def log_softmax(x: jax.Array) -> jax.Array:
    """Return the logarithm of the softmax over the last axis, `jax.nn.log_softmax(x)`."""
    return _log_softmax(x) if _is_short(x) else jax.nn.log_softmax(x)


def total(x: jax.Array) -> jax.Array:
    """Return the sum over the last axis, `jnp.sum(x, axis=-1)`."""
    return _total(x) if _is_short(x) else jnp.sum(x, axis=-1)


def argmax(x: jax.Array) -> jax.Array:
    """Return the first index of the largest element of the last axis, `jnp.argmax(x, axis=-1)`."""
    if not _is_short(x):
        return jnp.argmax(x, axis=-1).astype(jnp.int32)
    best, index = x[..., 0], jnp.zeros(x.shape[:-1], jnp.int32)
    for i, column in enumerate(_columns(x)[1:], start=1):
        index = jnp.where(column > best, i, index)
        best = jnp.maximum(best, column)
    return index


@jax.custom_jvp
def _log_softmax(x: jax.Array) -> jax.Array:
    x = x - functools.reduce(jnp.maximum, _columns(x))[..., None]
    return x - jnp.log(_total(jnp.exp(x)))[..., None]


@jax.custom_jvp
def _total(x: jax.Array) -> jax.Array:
    return functools.reduce(jnp.add, _columns(x))


# Backwards, slices take more kernels than reductions.
_log_softmax.defjvp(partial(jax.jvp, jax.nn.log_softmax))
_total.defjvp(partial(jax.jvp, partial(jnp.sum, axis=-1)))


def _is_short(x: jax.Array) -> bool:
    return not on_cpu() and 0 < x.shape[-1] <= FEW


def _columns(x: jax.Array) -> list[jax.Array]:
    return [x[..., i] for i in range(x.shape[-1])]


# --- Initialisation -------------------------------------------------------------------------------


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initialiser of (semi-)orthogonal kernels (Saxe et al. 2014), without LAPACK.

    Kernels have the distribution of `jax.nn.initializers.orthogonal(scale)`. That calls a QR
    factorisation. Batched over agents on a CPU with few cores, such LAPACK calls deadlock, because
    they wait for the thread pool that they occupy; on a GPU they run one after another. The polar
    factor of a Gaussian matrix has the same distribution (Haar) and only needs matrix products.

    All axes but the last are the kernel's inputs, as in flax. The kernel has orthonormal columns
    (or rows, where it has more columns than rows), times `scale`.
    """

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        return _orthogonal(key, tuple(shape), scale, dtype)

    return init


# Traced once per shape: flax evaluates the shapes of parameters whenever a network is applied.
@partial(jax.jit, static_argnames=("shape", "scale", "dtype"))
def _orthogonal(key: jax.Array, shape: tuple[int, ...], scale: float, dtype: Any) -> jax.Array:
    """Return the polar factor of a Gaussian matrix, by a Newton-Schulz iteration.

        X <- X (a I + b G + c G^2),  G = X^T X

    (Higham 2008, "Functions of Matrices", section 8.3, with other coefficients in each step.)
    """
    rows, columns = math.prod(shape[:-1]), shape[-1]
    gaussian = jax.random.normal(key, (max(rows, columns), min(rows, columns)), jnp.float32)
    identity = jnp.eye(gaussian.shape[1], dtype=gaussian.dtype)

    def step(x, coefficients):
        a, b, c = coefficients
        gram = x.T @ x
        return x @ (a * identity + b * gram + c * gram @ gram), None

    # The Frobenius norm bounds the largest singular value, so no singular value exceeds 1.95.
    start = gaussian * (1.95 / jnp.linalg.norm(gaussian))
    with jax.default_matmul_precision("highest"):
        kernel, _ = jax.lax.scan(step, start, jnp.asarray(NEWTON_SCHULZ_COEFFICIENTS, start.dtype))
    kernel = kernel if rows >= columns else kernel.T
    return (scale * kernel).reshape(shape).astype(dtype)
