"""What several evolutions say together: the evolution is the unit, not the agents that judge it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metaevo.statistics.intervals import Estimate, bootstrap, pooled_iqm
from metaevo.statistics.scores import FloatArray, Interval, Strata, arrays_of, iqm
from metaevo.statistics.verdict import Verdict

RESAMPLES = 10_000
"""More than elsewhere, as few evolutions need quantiles far out."""


class Together(NamedTuple):
    """Several evolutions against the strongest of several others."""

    mean: Estimate
    """over the evolutions of each one's interquartile mean"""
    place: int
    """of the strongest of the others: the one with the highest interquartile mean"""
    difference: Estimate
    """the mean minus the interquartile mean of the strongest"""
    p: float
    """of Student's t test of the evolutions' differences from the strongest"""
    verdict: Verdict
    """the interval and the test have to agree, or nothing is claimed"""


def mean_of_evolutions(
    evolutions: Sequence[Strata], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Return the mean over evolutions of each one's interquartile mean, with its 95% interval.

    Evolutions are redrawn, then the runs of each one that was drawn (the two-stage bootstrap,
    Davison & Hinkley 1997, section 3.8). A plain percentile interval of few evolutions is too
    narrow, so its quantiles are further out (`expanded`). One evolution has no spread: its
    interval is that of its runs.

    Args:
        evolutions: the scores of what each of them found.
        resamples: of the bootstrap.
        seed: of it.

    Raises:
        ValueError: there is no evolution, or scores that `arrays_of` refuses.
    """
    redrawn = _redrawn(evolutions, np.random.default_rng(seed), resamples)
    low, high = np.quantile(redrawn, expanded(len(evolutions)))
    return Estimate(_mean(evolutions), (float(low), float(high)))


def together(
    evolutions: Sequence[Strata],
    others: Sequence[Strata],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Together:
    """Compare several evolutions with the strongest of several others.

    The interval allows for the choice of the strongest as that of `against_strongest` does: its
    low end is the lowest of all differences', its high end the smallest difference plus a margin
    for the luckiest of the others. The bootstrap is too sure of two or three evolutions, the t
    test, which takes the strongest one's score as known, of many: they have to agree.

    Args:
        evolutions: the scores of what each of them found.
        others: at least one, on the same tasks.
        resamples: of the bootstrap.
        seed: of it.
    """
    rng = np.random.default_rng(seed)
    of_all = _redrawn(evolutions, rng, resamples)
    redrawn = np.stack([of_all - bootstrap(other, pooled_iqm, rng, resamples) for other in others])
    values = _mean(evolutions) - np.array([_iqm(other) for other in others])
    place = int(values.argmin())
    below, above = expanded(len(evolutions))
    low = float(np.quantile(redrawn, below, axis=1).min())
    margin = np.quantile((redrawn - values[:, np.newaxis]).max(axis=0), above)
    difference = Estimate(float(values[place]), (low, float(values[place] + margin)))
    p = _t_test([_iqm(each) - _iqm(others[place]) for each in evolutions])
    claim: Verdict = "better" if low > 0 else "worse"
    if p > 0.05 or low <= 0 <= difference.interval[1]:
        claim = "undecided"
    mean = mean_of_evolutions(evolutions, resamples=resamples, seed=seed)
    return Together(mean, place, difference, p, claim)


def expanded(count: int) -> Interval:
    """Return the two quantiles of an interval that holds 95% for so few units.

    The expanded percentile interval (Hesterberg 2015, "What Teachers Should Know About the
    Bootstrap", section 5.3): as wide as Student's t is beside a normal distribution, and by
    sqrt(n / (n - 1)), as redrawing n units has the variance of n, not of n - 1.
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
    """Return the two-sided p of a mean of zero; 1 of a single number."""
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    count = len(differences)
    if count < 2:
        return 1.0
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0:
        return float(mean == 0)
    return float(2 * scipy.stats.t.sf(abs(mean) / spread * np.sqrt(count), count - 1))


def _mean(evolutions: Sequence[Strata]) -> float:
    return float(np.mean([_iqm(each) for each in evolutions]))


def _iqm(strata: Strata) -> float:
    return iqm(np.concatenate(arrays_of(strata)))
