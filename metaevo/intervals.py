"""Interquartile means, bootstrap intervals, and the treatment of missing scores."""

from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]

ENDS = [0.025, 0.975]
"""Quantiles of a 95% interval."""


class Estimate(NamedTuple):
    """A number and its 95% bootstrap interval."""

    value: float
    interval: Interval


def check_finite(array: FloatArray) -> None:
    """Raise `ValueError` if a score is not finite."""
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise ValueError(
            f"{bad} of {array.size} scores are not finite; missing ones count as the worst of "
            "their task (fill_missing)"
        )


@overload
def iqm(scores: ArrayLike, axis: None = None) -> float: ...
@overload
def iqm(scores: ArrayLike, axis: int) -> FloatArray: ...
def iqm(scores: ArrayLike, axis: int | None = None) -> float | FloatArray:
    """Interquartile mean: the mean of the middle half of the scores.

    Of n scores the floor(n / 4) lowest and as many of the highest are left out, rounded down where
    n is no multiple of 4 rather than weighting a score by a fraction: 6 of 10 count, 3 of 3.
    This is ``scipy.stats.trim_mean(scores, 0.25)``, as in rliable.

    ``scores`` have any shape. Without ``axis`` all entries are pooled into one float.

    Raises:
        ValueError: no scores, or some are not finite.
    """
    array = np.asarray(scores, np.float64)
    if not array.size:
        raise ValueError(f"no scores: the array has shape {array.shape}")
    check_finite(array)
    array = array.ravel() if axis is None else np.moveaxis(array, axis, -1)
    cut = array.shape[-1] // 4
    middle = np.sort(array, axis=-1)[..., cut : array.shape[-1] - cut].mean(axis=-1)
    return float(middle) if axis is None else middle


def fill_missing(scores: ArrayLike, axis: int | tuple[int, ...] | None = None) -> FloatArray:
    """Replace missing scores (diverged runs, no finished episode) by the worst over some axes.

    These should be all groups and runs of a task: a group's own worst score would favour groups
    with few surviving runs. By default all axes; 0 where there is no score at all.
    """
    array = np.asarray(scores, np.float64)
    worst = np.where(np.isfinite(array), array, np.inf).min(axis=axis, keepdims=True)
    return np.where(np.isfinite(array), array, np.where(np.isfinite(worst), worst, 0.0))


def interval_of(values: FloatArray) -> Interval:
    """Percentile interval of bootstrap values [resamples], 95%."""
    low, high = np.quantile(values, ENDS)
    return float(low), float(high)
