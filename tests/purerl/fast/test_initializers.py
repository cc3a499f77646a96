import jax
import numpy as np
import pytest

from purerl.fast.arithmetic import orthogonal


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(4, 64), (64, 1), (256, 256), (3, 3, 4, 16)])
def test_kernels_are_orthogonal(shape):
    init = jax.jit(lambda key: orthogonal(2.0)(key, shape))
    kernel = np.asarray(init(jax.random.key(0)), np.float64)
    assert kernel.shape == shape
    matrix = kernel.reshape(-1, shape[-1]) / 2.0
    matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=2e-6)


def test_badly_conditioned_matrices_converge():
    # Square Gaussian matrices are the hard case: their smallest singular value can be tiny.
    keys = jax.random.split(jax.random.key(3), 512)
    kernels = jax.jit(jax.vmap(lambda key: orthogonal()(key, (32, 32))))(keys)
    kernels = np.asarray(kernels, np.float64)
    error = np.abs(np.swapaxes(kernels, 1, 2) @ kernels - np.eye(32)).max(axis=(1, 2))
    assert error.max() < 1e-5


def test_kernels_are_uniformly_distributed():
    # Haar measure on 2 x 2 matrices: the first column's angle is uniform, either handedness has
    # probability 1/2.
    keys = jax.random.split(jax.random.key(1), 4000)
    kernels = np.asarray(jax.vmap(lambda key: orthogonal()(key, (2, 2)))(keys))
    angle = np.arctan2(kernels[:, 1, 0], kernels[:, 0, 0])
    counts, _ = np.histogram(angle, bins=8, range=(-np.pi, np.pi))
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)
    assert abs(np.mean(np.linalg.det(kernels) > 0) - 0.5) < 5 * 0.5 / np.sqrt(4000)
