"""Fitness: diverged agents, missing episodes, points of a curve."""

import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.tasks.fitness import (
    FitnessConfig,
    Windows,
    all_finite,
    measures,
    scores,
)
from purerl.types import EpisodeSums


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_single_number_that_is_not_finite_is_enough(xp):
    tree = {"a": xp.ones((3, 2)), "n": xp.ones(3, int), "b": [xp.asarray([0.0, np.inf, np.nan])]}
    assert isinstance(all_finite(tree, axes=1), np.ndarray if xp is np else jnp.ndarray)
    assert all_finite(tree, axes=1).tolist() == [True, False, False]
    assert not all_finite(tree)
    assert all_finite({"a": tree["a"], "n": tree["n"]})


def test_no_score_without_episodes_or_with_infinite_parameters():
    ones = np.ones((3, 4), np.float32)
    count = np.float32([[1] * 4, [1] * 4, [0] * 4])
    episodes = EpisodeSums(count, 2 * count, count, 5 * ones, ones)
    finite = np.array([True, False, True])
    found = scores(FitnessConfig(), episodes, finite)
    np.testing.assert_array_equal(found, [2, np.nan, np.nan])
    found = scores(FitnessConfig(mean_return=0, reward_per_step=1), episodes, finite)
    np.testing.assert_array_equal(found, [5, np.nan, 5])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_final_return_is_of_the_last_tenth_alone(bad):
    returns = jnp.full(20, 3.0).at[4].set(bad)
    ones = jnp.ones(20)
    found = measures(EpisodeSums(ones, returns, ones, ones, ones))
    assert found["final_return"] == 3.0
    assert not np.isfinite(found["mean_return"])


@pytest.mark.parametrize(("points", "updates"), [(4, 12), (4, 13), (5, 3), (200, 450), (1, 7)])
def test_windows_cover_the_whole_training(points, updates):
    windows = Windows.at_most(points, updates)
    assert windows.count <= points
    ends = windows.ends()
    assert len(ends) == windows.count
    assert ends[-1] == updates
    assert (np.diff(ends, prepend=0) <= windows.every).all()
    sums = np.arange(1.0, updates + 1)
    np.testing.assert_array_equal(
        np.cumsum(windows.pooled({"x": jnp.asarray(sums)})["x"]), np.cumsum(sums)[ends - 1]
    )
