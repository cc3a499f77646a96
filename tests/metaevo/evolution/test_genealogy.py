"""Where programs come from, next to a record that forgets nothing."""

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import genealogy
from metaevo.evolution.genealogy import NOBODY, Birth

PLACES, SURVIVORS = 8, 3


def programs_of(numbers):
    return {"codes": jnp.float32(numbers)[:, None]}


def test_a_ring_remembers_the_last_ones():
    """A program is its number, so that everything about it can be looked up.

    The first one survives all generations, although the ring forgets it.
    """
    rng = np.random.default_rng(0)
    ring = genealogy.begin(programs_of([0]), PLACES)
    record = jax.jit(genealogy.record)
    parents, scores, alive = {}, {}, [NOBODY] * SURVIVORS
    for generation in range(30):
        is_new = np.array(alive) == NOBODY
        first = len(parents)
        expected = np.where(is_new, first + np.cumsum(is_new) - 1, alive)
        pairs = [rng.integers(first, size=2) if first else (NOBODY, NOBODY) for _ in alive]
        mother, father = np.array(pairs, np.int32).T
        score = rng.random(SURVIVORS).astype(np.float32)
        birth = Birth(mother, father, jnp.zeros(SURVIVORS, jnp.int32))
        args = jnp.int32(generation), score, jnp.ones(SURVIVORS)
        ring, numbers = record(ring, jnp.int32(alive), programs_of(expected), birth, *args)
        assert numbers.tolist() == expected.tolist()
        for number, pair, is_child in zip(expected.tolist(), pairs, is_new, strict=True):
            if is_child:
                parents[number] = tuple(pair)
        scores |= dict(zip(expected.tolist(), score.tolist(), strict=True))
        survive = [True, *(rng.random(SURVIVORS - 1) < 0.6)]
        alive = np.where(survive, expected, NOBODY).tolist()

        host = jax.device_get(ring)
        kept = range(max(0, len(parents) - PLACES), len(parents))
        assert sorted(host.number[host.number >= 0].tolist()) == list(kept)
        for number in range(len(parents)):
            line, each = [], number
            while each in kept:
                line.insert(0, each)
                each = parents[each][0]
            found = genealogy.line(host, {"codes": np.float32([number])})
            assert host.number[found].tolist() == line
            assert host.score[found].tolist() == [scores[each] for each in line]
            assert host.birth.father[found].tolist() == [parents[each][1] for each in line]
    assert len(parents) > 2 * PLACES
