"""Interquartile means, bootstrap intervals, and the treatment of missing scores."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]
Key = TypeVar("Key")

RESAMPLES = 2000
_ENDS = [0.025, 0.975]
"""quantiles of a 95% interval"""


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


def flat_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a column for each number of an estimate; a non-finite one is None."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Estimate):
            names = name, f"{name}_low", f"{name}_high"
            numbers = zip(names, (value.value, *value.interval), strict=True)
            found |= {key: each if math.isfinite(each) else None for key, each in numbers}
        else:
            found[name] = value
    return found


def interval_of(values: FloatArray) -> Interval:
    """Percentile interval of bootstrap values [resamples], 95%."""
    low, high = np.quantile(values, _ENDS)
    return float(low), float(high)


def redrawn_counts(rng: np.random.Generator, runs: int, resamples: int) -> FloatArray:
    """Return [resamples, runs]: how often each run is in a bootstrap sample.

    A statistic that is linear in the runs needs these counts only, never the samples themselves.
    """
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples).astype(np.float64)


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
    result[1:, known] = np.nanquantile(means, _ENDS, axis=0)
    return result[0], result[1], result[2]
