"""Interquartile means, bootstrap intervals, and the treatment of missing scores.

Comparisons of groups (`metaevo.statistics.groups`) are imported at their first use.

    >>> metaevo.statistics.compare([3.1, 2.9, 3.3, 3.0], [1.0, 1.2, 0.9, 1.1]).conclusion
    'better'
"""

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from metaevo.statistics.groups import Comparison as Comparison
    from metaevo.statistics.groups import compare as compare
    from metaevo.statistics.groups import estimate as estimate
    from metaevo.statistics.groups import flat_record as flat_record
    from metaevo.statistics.groups import holm as holm
    from metaevo.statistics.groups import mean_curve as mean_curve
    from metaevo.statistics.groups import probability_of_improvement as probability_of_improvement
    from metaevo.statistics.groups import rank_test as rank_test
    from metaevo.statistics.groups import signed_rank_test as signed_rank_test
    from metaevo.statistics.groups import summarise as summarise
    from metaevo.statistics.groups import verdict as verdict

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


def __getattr__(name: str) -> Any:
    """Return a public name of `groups`."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("metaevo.statistics.groups"), name)
