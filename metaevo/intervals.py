"""Interquartile means, bootstrap intervals, and the treatment of missing scores."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]
Key = TypeVar("Key")

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


def fill_missing(tables: Mapping[Key, ArrayLike]) -> dict[Key, FloatArray]:
    """Replace missing scores (diverged runs, no finished episode) by the worst score on the task.

    The worst score is taken over all groups; a group's own worst score would favour groups with few
    surviving runs.

    Args:
        tables: scores [runs] or [runs, tasks] of every group, on the same tasks.

    Returns:
        finite copies of the tables; 0 on a task without any score.
    """
    arrays = {key: np.asarray(each, dtype=np.float64) for key, each in tables.items()}
    everything = np.concatenate(list(arrays.values()))
    worst = np.min(np.where(np.isfinite(everything), everything, np.inf), axis=0)
    worst = np.where(np.isfinite(worst), worst, 0.0)
    return {key: np.where(np.isfinite(each), each, worst) for key, each in arrays.items()}


def interval_of(values: FloatArray) -> Interval:
    """Percentile interval of bootstrap values [resamples], 95%."""
    low, high = np.quantile(values, ENDS)
    return float(low), float(high)
