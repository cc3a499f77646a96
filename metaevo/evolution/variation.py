"""New programs: random ones, and from others, with subtrees exchanged, inserted and hoisted.

A random program is drawn from its root: every operation adds its operands to those that are still
missing, and only as many operations are drawn as leave room for the missing ones.

All functions are pure and for one program, see `metaevo.evolution.postfix`. A result has at most
the length of its arrays; `limited` also limits its levels.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import postfix
from metaevo.evolution.postfix import Program

Piece = tuple[Program, jax.Array | int, jax.Array | int]
"""A program, the first place of a part, and the place after this part."""

CONSTANTS = (-2.0, 0.5)
"""Powers of ten between which the sizes of random constants lie."""


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
        return postfix.height(carry[0]) > depth

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


def starts(codes: jax.Array) -> jax.Array:
    """Return where the subtree that ends at each place begins, [L]."""
    level, place = postfix.depths(codes), jnp.arange(len(codes))
    before = (level == level[:, None] - 1) & (place < place[:, None])
    return jnp.max(jnp.where(before, place, -1), axis=1) + 1


def exchange(key: jax.Array, program: Program, donor: Program) -> Program:
    """Replace a random subtree by a random subtree of the donor that fits."""
    own_key, donor_key = jax.random.split(key)
    start, end = _subtree(own_key, program)
    room = _room(program) + end - start
    first, last = _subtree(donor_key, donor, room)
    return _joined([(program, 0, start), (donor, first, last), _rest(program, end)])


def insert(key: jax.Array, program: Program, donor: Program) -> Program:
    """Put a random subtree of the donor around a random subtree, if both fit.

    The program's subtree replaces a random input or constant in the donor's subtree.
    """
    own_key, donor_key, leaf_key = jax.random.split(key, 3)
    start, end = _subtree(own_key, program)
    first, last = _subtree(donor_key, donor, _room(program) + 1)
    place = jnp.arange(len(donor[0]))
    is_leaf = (postfix.arities(donor[0]) == 0) & (place >= first) & (place < last)
    leaf = _any(leaf_key, is_leaf)
    return _joined(
        [
            (program, 0, start),
            (donor, first, leaf),
            (program, start, end),
            (donor, leaf + 1, last),
            _rest(program, end),
        ]
    )


def hoist(key: jax.Array, program: Program) -> Program:
    """Return a random subtree."""
    return _joined([(program, *_subtree(key, program))])


def change(key: jax.Array, program: Program, donor: Program) -> Program:
    """Replace a random code by a code of the donor with as many operands, if any."""
    own_key, donor_key = jax.random.split(key)
    place = _any(own_key, program[0] != postfix.BLANK)
    same = postfix.arities(donor[0]) == postfix.arities(program[0])[place]
    same &= donor[0] != postfix.BLANK
    other = _any(donor_key, same)
    codes, constants = (
        own.at[place].set(jnp.where(jnp.any(same), theirs[other], own[place]))
        for own, theirs in zip(program, donor, strict=True)
    )
    return codes, constants


def perturb(key: jax.Array, program: Program, sigma: jax.Array | float) -> Program:
    """Multiply all constants by 1 plus noise, and add a tenth of such noise."""
    codes, constants = program
    factor_key, shift_key = jax.random.split(key)
    factor = 1.0 + sigma * jax.random.normal(factor_key, constants.shape)
    shift = 0.1 * sigma * jax.random.normal(shift_key, constants.shape)
    return codes, jnp.where(codes == postfix.CONSTANT, constants * factor + shift, 0.0)


def limited(program: Program, result: Program, depth: int) -> Program:
    """Return the result, or the program if the result has more than `depth` levels."""
    fits = postfix.height(result[0]) <= depth
    codes, constants = (jnp.where(fits, new, old) for old, new in zip(program, result, strict=True))
    return codes, constants


def _any(key: jax.Array, among: jax.Array) -> jax.Array:
    """Return a random place where `among` [L] is true."""
    return jax.random.categorical(key, jnp.where(among, 0.0, -jnp.inf))


def _room(program: Program) -> jax.Array:
    """Return by how many codes a program can grow."""
    return len(program[0]) - postfix.length(program[0])


def _subtree(
    key: jax.Array, program: Program, most: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Return the first place of a random subtree of at most so many codes, and that after it."""
    codes = program[0]
    begins = starts(codes)
    among = codes != postfix.BLANK
    if most is not None:
        among &= jnp.arange(len(codes)) + 1 - begins <= most
    last = _any(key, among)
    return begins[last], last + 1


def _rest(program: Program, start: jax.Array) -> Piece:
    return program, start, postfix.length(program[0])


def _joined(pieces: list[Piece]) -> Program:
    """Return one piece after another, followed by blanks."""
    codes, constants = (jnp.zeros_like(each) for each in pieces[0][0])
    place, end = jnp.arange(len(codes)), jnp.int32(0)
    for (own_codes, own_constants), first, last in pieces:
        source = jnp.clip(first + place - end, 0, len(codes) - 1)
        inside = (place >= end) & (place < end + last - first)
        codes = jnp.where(inside, own_codes[source], codes)
        constants = jnp.where(inside, own_constants[source], constants)
        end = end + last - first
    return codes, constants
