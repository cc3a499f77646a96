"""Statistics of groups of runs on several tasks, with any number of runs on each.

Tables [runs, tasks] are the special case of `metaevo.statistics.table`. Here scores are a list of
tasks, each an array [runs] (a stratum), so that one task may have 3 seeds and another 10; runs are
redrawn within their task only, and every run counts the same, as in Agarwal et al. 2021
(arXiv 2108.13264). On one task the results are those of the tables.
"""

from collections.abc import Callable, Sequence
from math import comb, inf, prod
from typing import NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from metaevo.statistics.table import Interval, Verdict, iqm

FloatArray = NDArray[np.float64]
Strata = Sequence[ArrayLike]
Statistic = Callable[[list[FloatArray]], FloatArray]
"""Of redrawn strata, a list of [resamples, runs]: [resamples]."""

RESAMPLES = 2000
_PERMUTATIONS = 20_000
POWER = 0.8
MOST_RUNS = 1000
"""More runs than that are not called for: the difference is too small to be looked for."""


def _arrays(strata: Strata) -> list[FloatArray]:
    arrays = [np.asarray(each, dtype=np.float64) for each in strata]
    if not arrays or any(each.ndim != 1 or not each.size for each in arrays):
        raise ValueError("scores must be a list of tasks with at least one run each")
    if not all(np.isfinite(each).all() for each in arrays):
        raise ValueError("scores must be finite")
    return arrays


def redraw(strata: Strata, rng: np.random.Generator, resamples: int) -> list[FloatArray]:
    """Bootstrap samples of every task: a list of [resamples, runs]."""
    return [each[rng.integers(len(each), size=(resamples, len(each)))] for each in _arrays(strata)]


def pooled_iqm(samples: list[FloatArray]) -> FloatArray:
    """Interquartile mean over the runs of all tasks [resamples]."""
    return np.asarray(iqm(np.concatenate(samples, axis=-1), axis=-1))


def interval_of(values: FloatArray, confidence: float = 0.95) -> Interval:
    """Percentile interval of bootstrap values."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


class Estimate(NamedTuple):
    """A number and its 95% bootstrap interval."""

    value: float
    interval: Interval


def estimate(
    strata: Strata, statistic: Statistic = pooled_iqm, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """A statistic of a group with its stratified bootstrap interval."""
    arrays = _arrays(strata)
    value = float(statistic([each[np.newaxis] for each in arrays])[0])
    redrawn = redraw(arrays, np.random.default_rng(seed), resamples)
    return Estimate(value, interval_of(statistic(redrawn)))


def optimality_gap(
    strata: Strata, optimum: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """How far the runs are below the optimum on average; beyond it nothing is gained.

    Agarwal et al. 2021, section 4.3: the mean of max(0, optimum - score).
    """

    def gap(samples: list[FloatArray]) -> FloatArray:
        below = [np.maximum(0, best - each) for best, each in zip(optimum, samples, strict=True)]
        return np.asarray(np.concatenate(below, axis=-1).mean(axis=-1))

    return estimate(strata, gap, resamples=resamples, seed=seed)


def performance_profile(
    strata: Strata, thresholds: ArrayLike, *, resamples: int = 500, seed: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The share of runs that score more than each threshold, averaged over tasks, low and high.

    Agarwal et al. 2021, section 4.2: [thresholds] each, with a pointwise 95% bootstrap interval.
    """
    levels = np.asarray(thresholds, dtype=np.float64)
    arrays = _arrays(strata)

    def share(samples: list[FloatArray]) -> FloatArray:
        above = [
            np.stack([(each > level).mean(axis=-1) for level in levels], axis=-1)
            for each in samples
        ]
        return np.asarray(np.mean(above, axis=0))

    redrawn = share(redraw(arrays, np.random.default_rng(seed), resamples))
    low, high = np.quantile(redrawn, [0.025, 0.975], axis=0)
    return share([each[np.newaxis] for each in arrays])[0], low, high


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    return 0.5 + 0.5 * np.sign(x[..., :, np.newaxis] - y[..., np.newaxis, :])


def probability_of_improvement(
    x: Strata, y: Strata, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 of one run each on the same task, averaged over tasks."""
    rng = np.random.default_rng(seed)
    tables = [_wins(a, b) for a, b in zip(_arrays(x), _arrays(y), strict=True)]
    redrawn = np.zeros(resamples)
    for table in tables:  # how often each run is drawn is all that matters
        rows, columns = table.shape
        of_x = rng.multinomial(rows, np.full(rows, 1 / rows), size=resamples) / rows
        of_y = rng.multinomial(columns, np.full(columns, 1 / columns), size=resamples) / columns
        redrawn += ((of_x @ table) * of_y).sum(axis=1) / len(tables)
    value = float(np.mean([table.mean() for table in tables]))
    return Estimate(value, interval_of(redrawn))


def rank_test(x: Strata, y: Strata, *, seed: int = 0) -> float:
    """P of the hypothesis that the runs of x and y are interchangeable within each task.

    Two-sided. On one task it is the Mann-Whitney test, exact for few runs without ties; otherwise
    a permutation test of the sum over tasks of U divided by its largest value.
    """
    xs, ys = _arrays(x), _arrays(y)
    ties = any(len(np.unique(np.r_[a, b])) < len(a) + len(b) for a, b in zip(xs, ys, strict=True))
    large = all(min(len(a), len(b)) > 8 for a, b in zip(xs, ys, strict=True))
    if len(xs) == 1 and (large or not ties):
        if len(np.unique(np.r_[xs[0], ys[0]])) == 1:
            return 1.0
        return float(scipy.stats.mannwhitneyu(xs[0], ys[0], alternative="two-sided").pvalue)
    rng = np.random.default_rng(seed)
    observed, drawn = 0.0, np.zeros(_PERMUTATIONS)
    for a, b in zip(xs, ys, strict=True):
        n, m = len(a), len(b)
        ranks = scipy.stats.rankdata(np.r_[a, b]) / (n * m)
        middle = n * ranks.mean()
        observed += ranks[:n].sum() - middle
        drawn += rng.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)[:, :n].sum(1) - middle
    extreme = np.abs(drawn) >= abs(observed) - 1e-9
    return float((1 + extreme.sum()) / (1 + _PERMUTATIONS))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment of several p values (1979): with them, one level holds for all at once."""
    order = np.argsort(p_values)
    adjusted, largest = np.empty(len(order)), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]


def smallest_p(x: Strata, y: Strata) -> float:
    """The p of completely separated runs: no data of this size can do better."""
    ways = prod(comb(len(a) + len(b), len(a)) for a, b in zip(_arrays(x), _arrays(y), strict=True))
    return min(1.0, 2 / ways)


def needed_runs(x: Strata, y: Strata, *, alpha: float = 0.05) -> float:
    """Runs of each group on each task for 80% power, were the true difference the observed one.

    Noether's formula for the Mann-Whitney test (1987, JASA 82:645), with the probability of
    improvement that a normal distribution of the observed difference and spread has: the observed
    share itself would be 1 for any few separated runs. Never fewer than a rank test needs at all.
    `inf` if there is no difference, or no spread to judge it by (one run).
    """
    effects, tasks = [], 0
    for a, b in zip(_arrays(x), _arrays(y), strict=True):
        tasks += 1
        freedom = len(a) + len(b) - 2
        if freedom < 1:
            return inf
        squares = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
        spread, difference = np.sqrt(squares / freedom), a.mean() - b.mean()
        separated = np.copysign(inf, difference) if difference else 0.0
        effects.append(difference / spread if spread > 0 else separated)
    probability = float(np.mean(scipy.stats.norm.cdf(np.array(effects) / np.sqrt(2))))
    if abs(probability - 0.5) < 1e-6:
        return inf
    quantiles = scipy.stats.norm.ppf(1 - alpha / 2) + scipy.stats.norm.ppf(POWER)
    needed = int(np.ceil(quantiles**2 / (6 * (probability - 0.5) ** 2) / tasks))
    while 2 / comb(2 * needed, needed) ** tasks > alpha:
        needed += 1
    return needed


class Paired(NamedTuple):
    """What runs with the same random numbers say of two groups."""

    pairs: int
    difference: Estimate
    """mean of x - y over the pairs; pairs are redrawn"""
    p: float
    """of Wilcoxon's signed-rank test; 1 if all pairs tie"""
    correlation: float
    """between the partners, NaN if unknown: only where it is high does pairing help"""


def paired(x: Strata, y: Strata, *, resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare partners: x[task][i] and y[task][i] had the same random numbers."""
    xs, ys = _arrays(x), _arrays(y)
    differences = [a - b for a, b in zip(xs, ys, strict=True)]

    def mean(samples: list[FloatArray]) -> FloatArray:
        return np.asarray(np.concatenate(samples, axis=-1).mean(axis=-1))

    every = np.concatenate(differences)
    p = 1.0
    if np.any(every != 0):
        p = float(scipy.stats.wilcoxon(every, method="auto").pvalue)
    centred = [np.concatenate([a - a.mean() for a in part]) for part in (xs, ys)]
    scale = np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    correlation = float((centred[0] * centred[1]).sum() / scale) if scale > 0 else np.nan
    return Paired(
        len(every), estimate(differences, mean, resamples=resamples, seed=seed), p, correlation
    )


class Contrast(NamedTuple):
    """Two groups beside each other, before other comparisons are allowed for."""

    difference: Estimate
    """interquartile mean of x minus that of y"""
    probability: Estimate
    """that a run of x scores more than one of y"""
    p: float


def contrast(x: Strata, y: Strata, *, resamples: int = RESAMPLES, seed: int = 0) -> Contrast:
    """Compare two groups on the same tasks."""
    rng = np.random.default_rng(seed)
    xs, ys = _arrays(x), _arrays(y)
    redrawn = pooled_iqm(redraw(xs, rng, resamples)) - pooled_iqm(redraw(ys, rng, resamples))
    value = iqm(np.concatenate(xs)) - iqm(np.concatenate(ys))
    return Contrast(
        Estimate(value, interval_of(redrawn)),
        probability_of_improvement(xs, ys, resamples=resamples, seed=seed),
        rank_test(xs, ys, seed=seed),
    )


def verdict(result: Contrast, adjusted_p: float, *, alpha: float = 0.05) -> Verdict:
    """What may be claimed: the interval and the rank test have to agree, or nothing is.

    The bootstrap alone is too sure of few runs, above all of one; the rank test holds its level
    with any number, and with fewer than 4 against 4 it never claims anything.
    """
    low, high = result.difference.interval
    rounding = 1e-12 * max(abs(low), abs(high))
    if adjusted_p > alpha:
        return "undecided"
    # The two can disagree on the direction: a heavy tail moves the ranks, not the middle.
    if low > rounding and result.probability.value > 0.5:
        return "better"
    if high < -rounding and result.probability.value < 0.5:
        return "worse"
    return "undecided"
