"""Random programs, and the height of a program.

A program is drawn from its root: every operation adds its operands to those that are still missing,
and only as many operations are drawn as leave room for the missing ones.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import postfix

CONSTANTS = (-2.0, 0.5)
"""Powers of ten between which the sizes of random constants lie."""


def height(codes: jax.Array) -> jax.Array:
    """Return the number of levels of a valid program's tree, []."""
    operands, arities = postfix.operands(codes), postfix.arities(codes)
    used = jnp.arange(postfix.MAX_OPERANDS) < arities[:, None]

    def add(place, heights):
        below = jnp.max(jnp.where(used[place], heights[operands[place]], 0))
        return heights.at[place].set(1 + below)

    heights = jax.lax.fori_loop(0, len(codes), add, jnp.zeros(len(codes), jnp.int32))
    return heights[jnp.maximum(postfix.length(codes) - 1, 0)]


def random_constants(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return constants of either sign, uniform in the logarithm of their size."""
    sign_key, size_key = jax.random.split(key)
    sizes = 10.0 ** jax.random.uniform(size_key, shape, minval=CONSTANTS[0], maxval=CONSTANTS[1])
    return sizes * jax.random.rademacher(sign_key, shape, jnp.float32)


def random_program(
    key: jax.Array, operations: Sequence[str], inputs: int, length: int, depth: int
) -> tuple[jax.Array, jax.Array]:
    """Return codes [length] and constants [length] of a program of at most `depth` levels."""
    size_key, key = jax.random.split(key)
    size = jax.random.randint(size_key, (), 1, length + 1)

    def too_deep(carry):
        return height(carry[0]) > depth

    def again(carry):
        _, size, key = carry
        own, key = jax.random.split(key)
        return _codes(own, operations, inputs, length, size), jnp.maximum(size // 2, 1), key

    codes, _, key = jax.lax.while_loop(too_deep, again, again((jnp.zeros(length), size, key)))
    constants = jnp.where(codes == postfix.CONSTANT, random_constants(key, (length,)), 0.0)
    return codes, constants


def _codes(
    key: jax.Array, operations: Sequence[str], inputs: int, length: int, size: jax.Array
) -> jax.Array:
    """Return the codes of a program of `size` codes, or fewer if no operation fits."""
    choices = np.array(
        [*map(postfix.code_of, operations), postfix.CONSTANT, *postfix.INPUT + np.arange(inputs)]
    )
    arities = postfix.ARITIES[choices]
    leaves = np.sum(arities == 0)
    weights = np.where(arities == 0, 1.0 / leaves, 1.0 / max(len(operations), 1))

    def draw(missing, inputs):
        place, key = inputs
        room = size - place
        after = missing - 1 + arities
        fits = (after < room) & ((after > 0) | (room <= 1))
        fits = jnp.where(jnp.any(fits), fits, arities == 0)
        choice = jax.random.categorical(key, jnp.where(fits, np.log(weights), -jnp.inf))
        is_done = missing == 0
        code = jnp.where(is_done, postfix.BLANK, jnp.asarray(choices)[choice])
        return jnp.where(is_done, 0, after[choice]), code

    keys = jax.random.split(key, length)
    _, prefix = jax.lax.scan(draw, jnp.int32(1), (jnp.arange(length), keys))
    # Read backwards, an expression in prefix form is one in postfix form.
    place = postfix.length(prefix) - 1 - jnp.arange(length)
    return jnp.where(place >= 0, prefix[jnp.maximum(place, 0)], postfix.BLANK)
