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
    """A program is its number, so that everything about it can be looked up."""
    rng = np.random.default_rng(0)
    ring = genealogy.begin(programs_of([0]), PLACES)
    record = jax.jit(genealogy.record)
    mothers, scores, alive = {}, {}, [NOBODY] * SURVIVORS
    for generation in range(30):
        is_new = np.array(alive) == NOBODY
        first = len(mothers)
        expected = np.where(is_new, first + np.cumsum(is_new) - 1, alive)
        parent = [int(rng.integers(first)) if first else NOBODY for _ in alive]
        score = rng.random(SURVIVORS).astype(np.float32)
        birth = Birth(jnp.int32(parent), jnp.int32(parent), jnp.zeros(SURVIVORS, jnp.int32))
        args = jnp.int32(generation), score, jnp.ones(SURVIVORS)
        ring, numbers = record(ring, jnp.int32(alive), programs_of(expected), birth, *args)
        assert numbers.tolist() == expected.tolist()
        for number, mother, is_child in zip(expected.tolist(), parent, is_new, strict=True):
            if is_child:
                mothers[number] = mother
        scores |= dict(zip(expected.tolist(), score.tolist(), strict=True))
        alive = [each if rng.random() < 0.6 else NOBODY for each in expected.tolist()]

        host = jax.device_get(ring)
        kept = range(max(0, len(mothers) - PLACES), len(mothers))
        assert sorted(host.number[host.number >= 0].tolist()) == list(kept)
        for number in range(len(mothers)):
            line, each = [], number
            while each in kept:
                line.insert(0, each)
                each = mothers[each]
            found = genealogy.line(host, {"codes": np.float32([number])})
            assert host.number[found].tolist() == line
            assert host.score[found].tolist() == [scores[each] for each in line]
    assert len(mothers) > 2 * PLACES
