"""Length, noise and direction of many estimates of one gradient."""

import numpy as np

from metaevo.evolution.meta_gradient import LARGEST


def clipped(gradients: np.ndarray) -> np.ndarray:
    """Return gradients [keys, numbers] as the strategy uses them.

    Lengths are clipped to `LARGEST`, and non-finite gradients become 0.
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    finite = np.isfinite(norms)
    factor = np.where(finite, np.minimum(1.0, LARGEST / np.maximum(norms, 1e-12)), 0.0)
    return np.where(finite, gradients, 0.0) * factor


def squared_mean(vectors: np.ndarray) -> float:
    """Return the squared length of the expected vector, without the bias from noise.

    Args:
        vectors: [keys, numbers] independent estimates.
    """
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    return float(
        (total @ total - np.sum(np.square(vectors, dtype=np.float64))) / count / (count - 1)
    )


def noise(vectors: np.ndarray) -> float:
    """Return the number of keys at which the mean is as long as its standard error.

    Infinite if the mean cannot be distinguished from zero.
    """
    variance = np.sum(np.var(vectors, axis=0, ddof=1, dtype=np.float64))
    signal = squared_mean(vectors)
    return float(variance / signal) if signal > 0 else float("inf")


def cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the cosine of two expected vectors, estimated on the same keys.

    Args:
        vectors: [keys, numbers] estimates of the first vector.
        others: [keys, numbers] estimates of the second vector on the same keys.
    """
    count = len(vectors)
    both = vectors.sum(axis=0, dtype=np.float64) @ others.sum(axis=0, dtype=np.float64)
    own = np.sum(vectors.astype(np.float64) * others)  # removed: only pairs of different keys count
    length = squared_mean(vectors) * squared_mean(others)
    if squared_mean(vectors) <= 0 or squared_mean(others) <= 0:
        return float("nan")
    return float((both - own) / count / (count - 1) / length**0.5)
