import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from purerl.fast.draws import hash_2x32, permutations, unrolled, with_fast_draws

KEY = jax.random.key(3)


@pytest.mark.parametrize("size", [1, 2, 513, 2**16 + 1])
def test_every_index_comes_once(size):
    orders = np.asarray(permutations(KEY, 2, size))
    assert orders.shape == (2, size)
    assert orders.dtype == np.int32
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.arange(size)[None].repeat(2, 0))
    if size > 3:
        assert (orders[0] != orders[1]).any()
        assert (orders[0] != np.arange(size)).any()


def test_all_orders_are_equally_likely():
    """24 orders of 4, drawn 24,000 times, against the uniform distribution (chi-squared)."""
    orders = np.asarray(permutations(KEY, 24_000, 4))
    _, counts = np.unique(orders @ 4 ** np.arange(4), return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_every_index_comes_to_every_place():
    """Also where ties are most frequent: the mean place of an index does not depend on it."""
    size = 2**12
    orders = np.asarray(permutations(KEY, 256, size))
    places = np.argsort(orders, axis=1).mean(axis=0)  # of every index, over the draws
    error = size / np.sqrt(12 * 256)
    assert stats.kstest((places - (size - 1) / 2) / error, "norm").pvalue > 1e-3
    assert abs(stats.pearsonr(np.arange(size), places).statistic) < 4 / np.sqrt(size)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: jax.random.bits(key, (3, 5)),
        lambda key: jax.random.bits(key, (7,), "uint8"),
        lambda key: jax.random.bits(key, (4,), "uint16"),
        lambda key: jax.random.normal(key, (33,)),
        lambda key: jax.random.categorical(key, jnp.arange(4.0), shape=(64,)),
        lambda key: jax.random.permutation(key, 100),
        lambda key: jax.random.randint(key, (50,), -3, 9),
        lambda key: jax.random.uniform(jax.random.fold_in(key, 12345), (3,)),
        lambda key: jax.random.uniform(jax.random.split(key, (2, 3))[1, 2], (3,)),
        lambda key: jax.vmap(jax.random.uniform)(jax.random.split(key, 9)),
        lambda key: jax.random.uniform(key, (0,)),
    ],
)
def test_the_numbers_match_jax(draw):
    np.testing.assert_array_equal(jax.jit(draw)(unrolled(KEY)), draw(KEY))


def test_the_hash_matches_the_paper():
    """Known answers of Random123's threefry2x32 with 20 rounds (its file kat_vectors)."""
    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, expected in known:
        found = hash_2x32(jnp.array(key, jnp.uint32), *map(jnp.uint32, counter))
        assert tuple(map(int, found)) == expected


def test_other_generators_are_left_alone():
    key = jax.random.key(0, impl="rbg")
    assert unrolled(key) is key
    assert unrolled(unrolled(KEY)).dtype == unrolled(KEY).dtype


def test_a_wrapped_function_draws_the_same_numbers():
    def function(state, *, scale):
        key, draw_key = jax.random.split(state["key"])
        return {"key": key, "x": state["x"] + scale * jax.random.normal(draw_key, (4,))}

    state = {"key": KEY, "x": jnp.arange(4.0)}
    found, expected = (f(state, scale=2.0) for f in (with_fast_draws(function), function))
    assert found["key"].dtype == expected["key"].dtype == KEY.dtype
    assert found["key"] == expected["key"]
    np.testing.assert_array_equal(found["x"], expected["x"])
