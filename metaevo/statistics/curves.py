"""Learning curves with pointwise intervals."""

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.intervals import RESAMPLES, redrawn_counts
from metaevo.statistics.scores import FloatArray


def mean_curve(
    curves: ArrayLike, *, resamples: int = RESAMPLES
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over seeds of learning curves and its pointwise 95% percentile bootstrap interval.

    ``curves`` are [seeds, points]; mean, low and high are [points] each. Whole seeds are redrawn. A
    non-finite value (no finished episode yet) is missing, not zero; a point no seed has is NaN.

    Raises:
        ValueError: if the shape is not [seeds, points], or there are no seeds.
    """
    array = np.asarray(curves, dtype=np.float64)
    if array.ndim != 2 or len(array) == 0:
        raise ValueError(f"learning curves must be [seeds, points], got shape {array.shape}")
    present = np.isfinite(array)
    known = present.any(axis=0)
    present, filled = present[:, known], np.where(present, array, 0.0)[:, known]
    counts = redrawn_counts(np.random.default_rng(0), len(array), resamples)
    result = np.full((3, array.shape[1]), np.nan)
    result[0, known] = filled.sum(axis=0) / present.sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0: a resample without any seed that has this point
        means = (counts @ filled) / (counts @ present)
    result[1:, known] = np.nanquantile(means, [0.025, 0.975], axis=0)
    return result[0], result[1], result[2]
