"""Instructions of programs: what a row computes.

Results are finite, and so are derivatives: divisors are at least SMALL in size, sqrt and log1p take
their argument from where they are defined, and `metaevo.parts.interpreter` limits results and
derivatives to +-LIMIT.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

LIMIT, SMALL = 1e9, 1e-9
LOWEST = np.float32(-1.0 + 1e-6)
"""Least argument of log1p."""


def _divisor(b: jax.Array) -> jax.Array:
    return jnp.where(jnp.abs(b) < SMALL, jnp.where(b < 0, -SMALL, SMALL), b)


def _sqrt(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    positive = a > SMALL**2
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, a, 1.0)), 0.0)


def _power(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """A power of |a|; with the sign of a for odd whole exponents."""
    size = jnp.power(jnp.maximum(jnp.abs(a), SMALL**2), b)
    return jnp.where((a < 0) & (jnp.mod(b, 2.0) == 1.0), -size, size)


INSTRUCTIONS: dict[str, Callable[..., jax.Array]] = {
    "add": lambda a, b, c: a + b,
    "subtract": lambda a, b, c: a - b,
    "multiply": lambda a, b, c: a * b,
    "divide": lambda a, b, c: a / _divisor(b),
    "minimum": lambda a, b, c: jnp.minimum(a, b),
    "maximum": lambda a, b, c: jnp.maximum(a, b),
    "greater": lambda a, b, c: (a > b).astype(a.dtype),
    "choose": lambda a, b, c: jnp.where(c > 0, a, b),
    "negate": lambda a, b, c: -a,
    "abs": lambda a, b, c: jnp.abs(a),
    "sign": lambda a, b, c: jnp.sign(a),
    "square": lambda a, b, c: a * a,
    "tanh": lambda a, b, c: jnp.tanh(a),
    "exp": lambda a, b, c: jnp.exp(jnp.minimum(a, 25.0)),
    "log1p": lambda a, b, c: jnp.log1p(jnp.maximum(a, LOWEST)),
    "sqrt": _sqrt,
    "power": _power,
}
"""What a row computes, `(a, b, c) -> result`, from its operands a and b; c is the result of the row
before."""
TWO_ROWS = {"where": ("greater", "choose"), "clip": ("maximum", "minimum")}
"""Operations of two rows; the second sees the result of the first."""


@functools.cache
def instructions_of(operations: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instructions that some operations need; every language can add."""
    names = ["add"]
    for name in operations:
        names += TWO_ROWS.get(name, (name,))
    return tuple(dict.fromkeys(names))
