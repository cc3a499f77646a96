"""Instructions of programs: what a row computes, and its derivative.

Results are finite, and so are derivatives: divisors are at least SMALL in size, sqrt and log1p take
their argument from where they are defined, and `metaevo.components.interpreter` limits results and
derivatives to +-LIMIT.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LIMIT, SMALL = 1e9, 1e-9
LOWEST = np.float32(-1.0 + 1e-6)
"""Least argument of log1p."""


class Instruction(NamedTuple):
    """What a row computes from its operands a and b; c is the result of the row before."""

    value: Callable[..., jax.Array]
    """`(a, b, c) -> result`"""
    slope: Callable[..., jax.Array]
    """`(a, b, c, result, da, db) -> derivative of the result`, from those of a and b"""


def _half(first: jax.Array, da: jax.Array, second: jax.Array, db: jax.Array) -> jax.Array:
    """Return the derivative of what is chosen, or the mean of both if they are tied, as JAX's."""
    return jnp.where(first, da, jnp.where(second, db, 0.5 * (da + db)))


def _divisor(b: jax.Array) -> jax.Array:
    return jnp.where(jnp.abs(b) < SMALL, jnp.where(b < 0, -SMALL, SMALL), b)


def _divide_slope(a, b, c, result, da, db):
    return (da - jnp.where(jnp.abs(b) < SMALL, 0.0, result * db)) / _divisor(b)


def _log1p_slope(a, b, c, result, da, db):
    return jnp.where(a > LOWEST, da, 0.0) / (1.0 + jnp.maximum(a, LOWEST))


def _sqrt_slope(a, b, c, result, da, db):
    positive = a > SMALL**2
    return 0.5 * jnp.where(positive, da, 0.0) / jnp.where(positive, result, 1.0)


def _power(a, b, c):
    """A power of |a|; with the sign of a for odd whole exponents."""
    size = jnp.power(jnp.maximum(jnp.abs(a), SMALL**2), b)
    return jnp.where((a < 0) & (jnp.mod(b, 2.0) == 1.0), -size, size)


def _power_slope(a, b, c, result, da, db):
    size = jnp.maximum(jnp.abs(a), SMALL**2)
    steepness = jnp.minimum(jnp.power(size, b - 1.0), LIMIT**2)
    sign = jnp.where(jnp.mod(b, 2.0) == 1.0, 1.0, jnp.sign(a))
    by_a = jnp.where(jnp.abs(a) < SMALL**2, 0.0, b * steepness * sign)
    return by_a * da + result * jnp.log(size) * db


INSTRUCTIONS: dict[str, Instruction] = {
    "add": Instruction(lambda a, b, c: a + b, lambda a, b, c, y, da, db: da + db),
    "subtract": Instruction(lambda a, b, c: a - b, lambda a, b, c, y, da, db: da - db),
    "multiply": Instruction(lambda a, b, c: a * b, lambda a, b, c, y, da, db: da * b + a * db),
    "divide": Instruction(lambda a, b, c: a / _divisor(b), _divide_slope),
    "minimum": Instruction(
        lambda a, b, c: jnp.minimum(a, b), lambda a, b, c, y, da, db: _half(a < b, da, a > b, db)
    ),
    "maximum": Instruction(
        lambda a, b, c: jnp.maximum(a, b), lambda a, b, c, y, da, db: _half(a > b, da, a < b, db)
    ),
    "greater": Instruction(
        lambda a, b, c: (a > b).astype(a.dtype), lambda a, b, c, y, da, db: jnp.zeros_like(a)
    ),
    "choose": Instruction(
        lambda a, b, c: jnp.where(c > 0, a, b),
        lambda a, b, c, y, da, db: jnp.where(c > 0, da, db),
    ),
    "negate": Instruction(lambda a, b, c: -a, lambda a, b, c, y, da, db: -da),
    "abs": Instruction(lambda a, b, c: jnp.abs(a), lambda a, b, c, y, da, db: jnp.sign(a) * da),
    "sign": Instruction(lambda a, b, c: jnp.sign(a), lambda a, b, c, y, da, db: jnp.zeros_like(a)),
    "square": Instruction(lambda a, b, c: a * a, lambda a, b, c, y, da, db: 2.0 * a * da),
    "tanh": Instruction(lambda a, b, c: jnp.tanh(a), lambda a, b, c, y, da, db: (1.0 - y * y) * da),
    "exp": Instruction(
        lambda a, b, c: jnp.exp(jnp.minimum(a, 25.0)), lambda a, b, c, y, da, db: y * da
    ),
    "log1p": Instruction(lambda a, b, c: jnp.log1p(jnp.maximum(a, LOWEST)), _log1p_slope),
    "sqrt": Instruction(lambda a, b, c: jnp.sqrt(jnp.maximum(a, 0.0)), _sqrt_slope),
    "power": Instruction(_power, _power_slope),
}
TWO_ROWS = {"where": ("greater", "choose"), "clip": ("maximum", "minimum")}
"""Operations of two rows; the second sees the result of the first."""


@functools.cache
def instructions_of(operations: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instructions that some operations need; every language can add."""
    names = ["add"]
    for name in operations:
        names += TWO_ROWS.get(name, (name,))
    return tuple(dict.fromkeys(names))
