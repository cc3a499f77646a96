"""Bootstrap intervals, and the statistics that have one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.scores import FloatArray, Interval, Strata, arrays_of, iqm, strata_of

Statistic = Callable[[list[FloatArray]], FloatArray]
"""Of redrawn strata, a list of [resamples, runs]: [resamples, ...]."""

RESAMPLES = 2000
_ENDS = [0.025, 0.975]
"""quantiles of a 95% interval"""
_BLOCK = 2**23
"""Numbers that are redrawn at once: 64 MiB, however many runs there are."""


def bootstrap(
    strata: Strata, statistic: Statistic, rng: np.random.Generator, resamples: int
) -> FloatArray:
    """Return a statistic [resamples, ...] of strata with the runs of each task redrawn."""
    arrays = arrays_of(strata)
    block = max(1, _BLOCK // sum(map(len, arrays)))
    parts = []
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        redrawn = [each[rng.integers(len(each), size=(count, len(each)))] for each in arrays]
        parts.append(statistic(redrawn))
    return np.concatenate(parts)


def interval_of(values: FloatArray) -> Interval:
    """Percentile interval of bootstrap values [resamples], 95%."""
    low, high = np.quantile(values, _ENDS)
    return float(low), float(high)


def pooled_iqm(samples: list[FloatArray]) -> FloatArray:
    """Interquartile mean over the runs of all tasks [resamples]."""
    return np.asarray(iqm(np.concatenate(samples, axis=-1), axis=-1))


class Estimate(NamedTuple):
    """A number and its 95% bootstrap interval."""

    value: float
    interval: Interval


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


def estimate(
    strata: Strata, statistic: Statistic = pooled_iqm, *, resamples: int = RESAMPLES
) -> Estimate:
    """A statistic of a group with its stratified percentile bootstrap interval.

    The runs of each task are redrawn with replacement independently of the other tasks' (Agarwal
    et al. 2021, section 4.1). With few runs the interval is too narrow: its coverage is close to
    nominal from about 10 runs, and a single run gives an interval of zero width.
    """
    arrays = arrays_of(strata)
    value = float(statistic([each[np.newaxis] for each in arrays])[0])
    redrawn = bootstrap(arrays, statistic, np.random.default_rng(0), resamples)
    return Estimate(value, interval_of(redrawn))


@dataclass(frozen=True)
class Summary:
    """Summary statistics of a variant's scores."""

    iqm: float
    interval: Interval  # 95% stratified bootstrap, of the interquartile mean
    mean: float
    std: float  # between the runs of a task (n - 1), root mean square over tasks; 0 for one run
    seeds: int  # runs a task


def summarise(scores: ArrayLike) -> Summary:
    """Summary of a table of scores [runs] or [runs, tasks].

    Raises:
        ValueError: as strata_of.
    """
    strata = strata_of(scores)
    runs = len(strata[0])
    found = estimate(strata)
    variance = np.var(strata, axis=1, ddof=1).mean() if runs > 1 else 0.0
    mean = float(np.mean(strata))
    return Summary(found.value, found.interval, mean, float(np.sqrt(variance)), runs)


def redrawn_counts(rng: np.random.Generator, runs: int, resamples: int) -> FloatArray:
    """[resamples, runs]: how often each run is in a bootstrap sample; a row sums to `runs`.

    A statistic that is linear in the runs needs these counts only, never the samples themselves.
    """
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples).astype(np.float64)


def probability_of_improvement(x: Strata, y: Strata, *, resamples: int = RESAMPLES) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 of one run each on the same task, averaged over tasks.

    On one task it is the Mann-Whitney U of x divided by both numbers of runs (Agarwal et al. 2021,
    section 4.3).
    """
    pairs = list(zip(arrays_of(x), arrays_of(y), strict=True))
    rng, wins = np.random.default_rng(0), [_wins(a, b) for a, b in pairs]
    redrawn = np.zeros(resamples)
    for (a, b), won in zip(pairs, wins, strict=True):
        of_a = redrawn_counts(rng, len(a), resamples)
        of_b = redrawn_counts(rng, len(b), resamples)
        redrawn += ((of_a @ won) * of_b).sum(axis=1) / (won.size * len(pairs))
    return Estimate(float(np.mean([won.mean() for won in wins])), interval_of(redrawn))


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """[runs of x, runs of y]: 1 where the run of x scores more, 0.5 where they tie."""
    return 0.5 + 0.5 * np.sign(x[:, np.newaxis] - y)


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
