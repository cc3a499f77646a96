"""Where programs come from: a ring of all that survived a generation, with their parents.

Every program that survives has a number, counted from 0. A program of the ring is overwritten after
as many others as the ring has places.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from metaevo.config.plain import PlainMapping
from purerl.types import PyTree

NOBODY = -1
"""the number of a missing parent"""


class Birth(struct.PyTreeNode):
    """How programs came about."""

    mother: jax.Array
    """int32 number of the program that was changed, or NOBODY"""
    father: jax.Array
    """int32 number of the program that gave a part, or NOBODY"""
    operation: jax.Array
    """int32 place in the list of operations"""


class Genealogy(struct.PyTreeNode):
    """The ring; F places."""

    number: jax.Array
    """[F] int32 of the program in each place, or NOBODY"""
    programs: PyTree
    """[F]"""
    birth: Birth
    """[F]"""
    generation: jax.Array
    """[F] int32, the first one that trained the program"""
    score: jax.Array
    """[F] after the last generation that the program survived"""
    generations: jax.Array
    """[F] that the score covers"""
    count: jax.Array
    """[] int32, numbers given"""


def born_of_nobody(count: int, operation: int) -> Birth:
    """Return how programs came about that have no parents."""
    nobody = jnp.full(count, NOBODY, jnp.int32)
    return Birth(mother=nobody, father=nobody, operation=jnp.full(count, operation, jnp.int32))


def begin(programs: PyTree, places: int) -> Genealogy:
    """Return an empty ring for programs like these [N]."""
    birth = born_of_nobody(places, 0)
    zeros = jnp.zeros(places)
    return Genealogy(
        number=birth.mother,
        programs=jax.tree.map(
            lambda leaf: jnp.zeros((places, *leaf.shape[1:]), leaf.dtype), programs
        ),
        birth=birth,
        generation=zeros.astype(jnp.int32),
        score=zeros,
        generations=zeros,
        count=jnp.int32(0),
    )


def record(
    ring: Genealogy,
    number: jax.Array,
    programs: PyTree,
    birth: Birth,
    generation: jax.Array,
    score: jax.Array,
    generations: jax.Array,
) -> tuple[Genealogy, jax.Array]:
    """Write survivors [N] of a generation; return the ring and their numbers [N].

    Args:
        ring: before the generation.
        number: [N] int32, of earlier survivors; NOBODY for new ones.
        programs: [N].
        birth: [N]; counts for new ones only.
        generation: [] int32.
        score: [N].
        generations: [N] that the score covers.
    """
    is_new = number == NOBODY
    number = jnp.where(is_new, ring.count + jnp.cumsum(is_new) - 1, number)
    places = len(ring.number)
    at = number % places
    new = jnp.where(is_new, at, places)  # out of range: not written
    old = jnp.where(ring.number[at] == number, at, new)
    written = ring.replace(
        number=ring.number.at[new].set(number, mode="drop"),
        programs=_write(ring.programs, new, programs),
        birth=_write(ring.birth, new, birth),
        generation=ring.generation.at[new].set(generation, mode="drop"),
        score=ring.score.at[old].set(score, mode="drop"),
        generations=ring.generations.at[old].set(generations, mode="drop"),
        count=ring.count + jnp.sum(is_new),
    )
    return written, number


def _write(tree: PyTree, places: jax.Array, values: PyTree) -> PyTree:
    return jax.tree.map(lambda old, new: old.at[places].set(new, mode="drop"), tree, values)


def place_of(ring: Genealogy, number: int) -> int | None:
    """Return the place of a program; None if it is overwritten, or for NOBODY."""
    place = number % len(ring.number)
    return place if number != NOBODY and ring.number[place] == number else None


def line(ring: Genealogy, program: PlainMapping) -> list[int]:
    """Return the places of a program's line of mothers, from the first one to the program.

    The line begins after the last one that is overwritten; it is empty if the program itself is.

    Args:
        ring: on the host.
        program: of several that are the same, the oldest counts.
    """
    same = ring.number != NOBODY
    for name, value in program.items():
        values = np.asarray(ring.programs[name])
        same &= (values == value).all(axis=tuple(range(1, values.ndim)))
    numbers = ring.number[np.flatnonzero(same)]
    found: list[int] = []
    place = place_of(ring, int(numbers.min()) if len(numbers) else NOBODY)
    while place is not None:
        found.append(place)
        place = place_of(ring, int(ring.birth.mother[place]))
    return found[::-1]
