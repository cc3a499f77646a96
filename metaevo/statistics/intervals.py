"""Stratified bootstrap intervals, and the statistics that have one."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.scores import FloatArray, Interval, Strata, arrays_of, iqm, strata_of

Statistic = Callable[[list[FloatArray]], FloatArray]
"""Of redrawn strata, a list of [resamples, runs]: [resamples, ...]."""

RESAMPLES = 2000
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
    low, high = np.quantile(values, [0.025, 0.975])
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


def optimality_gap(strata: Strata, optimum: Sequence[float]) -> Estimate:
    """Average distance of the runs below the optimum; scores above the optimum count as 0.

    Agarwal et al. 2021, section 4.3: the mean of max(0, optimum - score).
    """

    def gap(samples: list[FloatArray]) -> FloatArray:
        below = [np.maximum(0, best - each) for best, each in zip(optimum, samples, strict=True)]
        return np.asarray(np.concatenate(below, axis=-1).mean(axis=-1))

    return estimate(strata, gap)


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
    xs, ys, rng = arrays_of(x), arrays_of(y), np.random.default_rng(0)
    redrawn = np.zeros(resamples)
    for a, b in zip(xs, ys, strict=True):
        of_a = redrawn_counts(rng, len(a), resamples)
        of_b = redrawn_counts(rng, len(b), resamples)
        redrawn += ((of_a @ _wins(a, b)) * of_b).sum(axis=1) / (len(a) * len(b) * len(xs))
    return Estimate(improvement(xs, ys), interval_of(redrawn))


def improvement(x: Strata, y: Strata) -> float:
    """The value of `probability_of_improvement`, without its interval."""
    pairs = zip(arrays_of(x), arrays_of(y), strict=True)
    return float(np.mean([_wins(a, b).mean() for a, b in pairs]))


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """[runs of x, runs of y]: 1 where the run of x scores more, 0.5 where they tie."""
    return 0.5 + 0.5 * np.sign(x[:, np.newaxis] - y)
