"""Programs: expressions in postfix form, as arrays of codes [L] and constants [L].

    error ** 2 + 0.5          codes [65, 12, 64, 1, 0, 0], constants [0, 0, 0.5, 0, 0, 0]

A code is an operation, a constant (the number in the same place of the other array), an input, or
blank after the end. An operation's operands are the complete programs that end before it. All
functions are pure and for one program; `L` is static.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams

OPERATIONS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "minimum", "maximum"), 2),
    **{"where": 4, "clip": 3},
    **dict.fromkeys(("negate", "abs", "sign", "square", "tanh", "exp", "log1p", "sqrt"), 1),
    "power": 2,
}
"""Numbers of operands by name. where(a, b, x, y) is x where a > b, else y. Saved programs depend on
the order."""
BLANK, CONSTANT, INPUT = 0, 64, 65
"""Codes: operations have 1, 2, ... in their order; input number i has INPUT + i."""
Program = tuple[jax.Array, jax.Array]
"""Codes [L] int32 and constants [L] float32."""
MAX_INPUTS = 32
MAX_OPERANDS = 4
ARITIES = np.zeros(INPUT + MAX_INPUTS, np.int32)
ARITIES[1 : 1 + len(OPERATIONS)] = list(OPERATIONS.values())


class Programs(NamedTuple):
    """How the programs of a problem behave, for strategies that vary programs.

    Meta-parameters are codes [programs, L] and constants [programs, L].
    """

    depth: int
    """largest number of levels of a program"""
    fingerprint: Callable[[MetaParams], jax.Array]
    """outputs on fixed inputs, [points]"""
    text: Callable[[PlainMapping], str]
    """the programs as expressions"""


def code_of(operation: str) -> int:
    """Return the code of an operation."""
    return 1 + list(OPERATIONS).index(operation)


def arities(codes: jax.Array) -> jax.Array:
    """Return the number of operands [L] of each code."""
    return jnp.asarray(ARITIES)[jnp.clip(codes, 0, len(ARITIES) - 1)]


def depths(codes: jax.Array) -> jax.Array:
    """Return the number of values [L] on the stack after each code."""
    return jnp.cumsum(jnp.where(codes == BLANK, 0, 1 - arities(codes)))


def length(codes: jax.Array) -> jax.Array:
    """Return the number of codes of a program, []."""
    return jnp.sum(codes != BLANK)


def operands(codes: jax.Array) -> jax.Array:
    """Return the places [L, MAX_OPERANDS] of each code's operands; 0 where it has none.

    The operands of a code are on the stack from its own result's level upwards, and on every level
    is what was put there last.
    """
    level, place = depths(codes), jnp.arange(len(codes))
    wanted = level[:, None] + jnp.arange(MAX_OPERANDS)
    put = (level == wanted[..., None]) & (place < place[:, None])[:, None]
    last = jnp.max(jnp.where(put, place, 0), axis=2)
    return jnp.where(jnp.arange(MAX_OPERANDS) < arities(codes)[:, None], last, 0)


def height(codes: jax.Array) -> jax.Array:
    """Return the number of levels of a valid program's tree, []."""
    places, arity = operands(codes), arities(codes)
    used = jnp.arange(MAX_OPERANDS) < arity[:, None]

    def add(place, heights):
        below = jnp.max(jnp.where(used[place], heights[places[place]], 0))
        return heights.at[place].set(1 + below)

    heights = jax.lax.fori_loop(0, len(codes), add, jnp.zeros(len(codes), jnp.int32))
    return heights[jnp.maximum(length(codes) - 1, 0)]


def is_valid(codes: jax.Array, inputs: int) -> jax.Array:
    """Return whether codes are one program with at most that many inputs, [] bool."""
    size, level = length(codes), depths(codes)
    place = jnp.arange(len(codes))
    known = (codes >= 1) & (codes <= len(OPERATIONS)) | (codes == CONSTANT)
    known |= (codes >= INPUT) & (codes < INPUT + inputs)
    live = place < size
    return (size > 0) & jnp.all(jnp.where(live, known & (level >= 1), True)) & (level[-1] == 1)
