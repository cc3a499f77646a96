import jax
import numpy as np
import pytest
from scipy import stats

from purerl.fast.draws import permutations

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
