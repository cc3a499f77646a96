"""Statistics over several evolutions, with the evolution as the unit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metaevo.statistics.intervals import Estimate, bootstrap, pooled_iqm
from metaevo.statistics.scores import FloatArray, Interval, Strata, iqm_of
from metaevo.statistics.verdict import Verdict

RESAMPLES = 10_000
"""More than elsewhere, because intervals of few evolutions use extreme quantiles."""


class Together(NamedTuple):
    """Comparison of several evolutions with the best baseline."""

    iqm: float
    """mean over evolutions of their interquartile means"""
    interval: Interval
    difference: float
    """mean minus the highest interquartile mean of a baseline"""
    difference_interval: Interval
    p: float
    """p-value of Student's t test of the evolutions' differences from the best baseline"""
    conclusion: Verdict
    """undecided unless the interval and the test agree"""


def mean_of_evolutions(evolutions: Sequence[Strata], *, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean over evolutions of each one's interquartile mean, with its 95% interval.

    A two-stage bootstrap resamples evolutions, then the runs of each (Davison & Hinkley 1997,
    section 3.8). Percentile intervals of few evolutions are too narrow, so more extreme quantiles
    are used (`expanded`). For a single evolution only its runs are resampled.

    Raises:
        ValueError: there is no evolution, or scores are not finite.
    """
    redrawn = _redrawn(evolutions, np.random.default_rng(0), resamples)
    low, high = np.quantile(redrawn, expanded(len(evolutions)))
    return Estimate(_mean(evolutions), (float(low), float(high)))


def together(
    evolutions: Sequence[Strata], others: Sequence[Strata], *, resamples: int = RESAMPLES
) -> Together:
    """Compare several evolutions with the best of several baselines.

    The interval is corrected for the choice of the best baseline as in `against_strongest`. The
    bootstrap is overconfident with two or three evolutions; the t test, which treats the best
    baseline's score as known, is overconfident with many. A verdict needs both.
    """
    rng = np.random.default_rng(0)
    of_all = _redrawn(evolutions, rng, resamples)
    redrawn = np.stack([of_all - bootstrap(other, pooled_iqm, rng, resamples) for other in others])
    values = _mean(evolutions) - np.array([iqm_of(other) for other in others])
    place = int(values.argmin())
    below, above = expanded(len(evolutions))
    low = float(np.quantile(redrawn, below, axis=1).min())
    margin = np.quantile((redrawn - values[:, np.newaxis]).max(axis=0), above)
    difference, high = float(values[place]), float(values[place] + margin)
    p = _t_test([iqm_of(each) - iqm_of(others[place]) for each in evolutions])
    claim: Verdict = "better" if low > 0 else "worse"
    if p > 0.05 or low <= 0 <= high:
        claim = "undecided"
    mean = mean_of_evolutions(evolutions, resamples=resamples)
    return Together(*mean, difference, (low, high), p, claim)


def expanded(count: int) -> Interval:
    """Return the two quantiles of an interval with 95% coverage for few units.

    The expanded percentile interval (Hesterberg 2015, "What Teachers Should Know About the
    Bootstrap", section 5.3): wider by the ratio of Student's t to the normal quantile, and by
    sqrt(n / (n - 1)), because resampling n units has the variance of n, not of n - 1.
    """
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    if count < 2:
        return 0.025, 0.975
    reach = np.sqrt(count / (count - 1)) * scipy.stats.t.ppf(0.975, count - 1)
    low = float(scipy.stats.norm.cdf(-reach))
    return low, 1 - low


def _redrawn(evolutions: Sequence[Strata], rng: np.random.Generator, resamples: int) -> FloatArray:
    """Return the mean of redrawn evolutions [resamples], each with its runs redrawn."""
    count = len(evolutions)
    if not count:
        raise ValueError("no evolutions to compare")
    chosen = rng.integers(count, size=(resamples, count))
    values = np.empty(chosen.shape)
    for index, evolution in enumerate(evolutions):
        here = chosen == index
        if here.any():
            values[here] = bootstrap(evolution, pooled_iqm, rng, int(here.sum()))
    return np.asarray(values.mean(axis=1))


def _t_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a zero mean; 1 for a single number."""
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    if len(differences) < 2:
        return 1.0
    if np.ptp(differences) == 0:
        return float(differences[0] == 0)
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def _mean(evolutions: Sequence[Strata]) -> float:
    return float(np.mean([iqm_of(each) for each in evolutions]))
