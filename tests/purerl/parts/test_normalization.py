import jax.numpy as jnp
import numpy as np
import pytest

from purerl.parts.normalization import RunningStatistics


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 3)])
def test_mean_and_variance_of_a_stream(shape):
    rng = np.random.default_rng(0)
    statistics = RunningStatistics.create(shape)
    seen = []
    for size in ((7, 4), (1, 4), (50, 4)):
        batch = (rng.normal(size=(*size, *shape)) * 3 + 5).astype(np.float32)
        seen.append(batch.reshape(-1, *shape))
        statistics = statistics.merge(jnp.asarray(batch))
    everything = np.concatenate(seen).astype(np.float64)
    assert statistics.count == pytest.approx(len(everything), rel=1e-6)
    np.testing.assert_allclose(statistics.mean, everything.mean(0), rtol=1e-4)
    np.testing.assert_allclose(statistics.variance, everything.var(0), rtol=1e-4)


def test_far_from_zero():
    # A sum of squares would cancel here in float32; an initial mean of 0 would be a far outlier.
    batches = np.random.default_rng(1).normal(size=(20, 64)).astype(np.float32) + 3000
    statistics = RunningStatistics.create(())
    for batch in batches:
        statistics = statistics.merge(jnp.asarray(batch))
    np.testing.assert_allclose(statistics.variance, batches.astype(float).var(), rtol=1e-3)


@pytest.mark.smoke
def test_normalize():
    statistics = RunningStatistics(jnp.array([1.0, 0.0]), jnp.array([4.0, 0.0]), jnp.float32(9))
    normal = statistics.normalize(jnp.array([5.0, 0.0]))
    np.testing.assert_allclose(normal, [2.0, 0.0])
    # a constant component does not explode when it moves, nor does an outlier
    np.testing.assert_allclose(statistics.normalize(jnp.array([-1e9, 1.0])), [-10.0, 10.0])
    untouched = RunningStatistics.create((2,)).normalize(jnp.array([0.3, -2.0]))
    np.testing.assert_allclose(untouched, [0.3, -2.0], rtol=1e-6)
