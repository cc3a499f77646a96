"""Who is better: one rule, for two groups and for one against the strongest of several."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.intervals import (
    RESAMPLES,
    Estimate,
    bootstrap,
    improvement,
    interval_of,
    pooled_iqm,
    probability_of_improvement,
)
from metaevo.statistics.ranks import holm, rank_test, signed_rank_test
from metaevo.statistics.scores import FloatArray, Interval, Strata, arrays_of, iqm, strata_of

Verdict = Literal["better", "worse", "undecided"]


class Contrast(NamedTuple):
    """Two groups beside each other, before other comparisons are allowed for."""

    difference: Estimate
    """interquartile mean of x minus that of y"""
    probability: Estimate
    """that a run of x scores more than one of y"""
    p: float
    """of the rank test"""


def contrast(
    x: Strata,
    y: Strata,
    *,
    shared_seeds: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Contrast:
    """Compare two groups on the same tasks, with any numbers of runs.

    Args:
        x: the first group.
        y: the second.
        shared_seeds: whether x[task][i] and y[task][i] had the same random numbers. Such partners
            are redrawn together, and the rank test is that of pairs: what both owe to their seed,
            say to the task that it has drawn, is no doubt about the difference.
        resamples: of the bootstrap.
        seed: of it.

    Raises:
        ValueError: different numbers of tasks, or scores that `arrays_of` refuses.
    """
    xs, ys = arrays_of(x), arrays_of(y)
    if len(xs) != len(ys):
        raise ValueError(f"scores on {len(xs)} and {len(ys)} tasks cannot be compared")
    of_x, of_y = _redrawn([xs, ys], shared_seeds, resamples, seed)
    redrawn = of_x - of_y
    value = iqm(np.concatenate(xs)) - iqm(np.concatenate(ys))
    return Contrast(
        Estimate(value, interval_of(redrawn)),
        probability_of_improvement(xs, ys, resamples=resamples, seed=seed),
        _test(xs, ys, shared_seeds, seed),
    )


def _redrawn(groups: Sequence[Strata], shared: bool, resamples: int, seed: int) -> list[FloatArray]:
    """Interquartile means [resamples] of redrawn groups; those of shared seeds by the same draws.

    Raises:
        ValueError: groups that share seeds differ in their numbers of runs.
    """
    if shared and len({tuple(map(len, arrays_of(each))) for each in groups}) > 1:
        raise ValueError("groups that share their seeds must have as many runs on every task")
    rng = np.random.default_rng(seed)
    rngs = [np.random.default_rng(seed) if shared else rng for _ in groups]
    return [
        bootstrap(group, pooled_iqm, own, resamples)
        for group, own in zip(groups, rngs, strict=True)
    ]


def _test(x: Strata, y: Strata, shared: bool, seed: int) -> float:
    return (signed_rank_test if shared else rank_test)(x, y, seed=seed)


def verdict(result: Contrast, adjusted_p: float, *, alpha: float = 0.05) -> Verdict:
    """What may be claimed: the interval and the rank test have to agree, or nothing is.

    The bootstrap alone is too sure of few runs, above all of one; the rank test holds its level
    with any number, and with fewer than 4 against 4 on one task it never claims anything.
    """
    low, high = result.difference.interval
    if adjusted_p > alpha:
        return "undecided"
    # The two can disagree on the direction: a heavy tail moves the ranks, not the middle.
    if low > 0 and result.probability.value > 0.5:
        return "better"
    if high < 0 and result.probability.value < 0.5:
        return "worse"
    return "undecided"


class Strongest(NamedTuple):
    """One group against the strongest of several."""

    place: int
    """of the strongest: the one with the highest interquartile mean"""
    contrast: Contrast
    """with it; the interval and p allow for its having been chosen on the same scores"""
    verdict: Verdict


def against_strongest(
    x: Strata,
    others: Sequence[Strata],
    *,
    shared_seeds: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Strongest:
    """Compare a group with the strongest of several, which these scores have to tell.

    The one that looks strongest has had luck, so that "worse" would be claimed too often; yet
    "better" must hold against the one that is strongest in truth. Both ends of the interval of
    IQM(x) - max IQM(others) allow for that, in bootstrap samples of all groups at once:

    - its low end is the lowest one of all differences. To be better than the strongest is to be
      better than each, which needs no allowance (an intersection-union test, Berger 1982), and of
      the rank tests the largest p counts.
    - its high end is the smallest difference plus a margin: how far the luckiest of the others
      strays from its own score, chosen again in each resample (the single-step method of Romano &
      Wolf 2005). Of the rank tests the strongest one's p counts, adjusted by Holm's method.

    With a single other group both are those of `contrast`. The simpler rule, the percentiles of
    IQM(x) - max IQM(others) over the resamples, is wrong: it adds the luck of the resamples to that
    of the scores, and claims "worse" of one of five equal groups of 128 runs in 20% of cases.

    Args:
        x: the group.
        others: at least one, on the same tasks.
        shared_seeds: as for `contrast`, of all groups.
        resamples: how many.
        seed: of the bootstrap.
    """
    of_x, *of_others = _redrawn([x, *others], shared_seeds, resamples, seed)
    redrawn = of_x - np.stack(of_others)
    values = iqm(np.concatenate(arrays_of(x))) - np.array(
        [iqm(np.concatenate(arrays_of(other))) for other in others]
    )
    place = int(values.argmin())
    low = np.quantile(redrawn, 0.025, axis=1).min()
    margin = np.quantile((redrawn - values[:, np.newaxis]).max(axis=0), 0.975)
    p_values = [_test(x, other, shared_seeds, seed) for other in others]
    if values[place] > 0:
        ahead = [improvement(x, other) > 0.5 for other in others]
        p = max(p if is_ahead else 1.0 for p, is_ahead in zip(p_values, ahead, strict=True))
    else:
        p = holm(p_values)[place]
    found = Contrast(
        Estimate(float(values[place]), (float(low), float(values[place] + margin))),
        probability_of_improvement(x, others[place], resamples=resamples, seed=seed),
        p,
    )
    return Strongest(place, found, verdict(found, p))


class Comparison(NamedTuple):
    """What a report says of two variants, as plain data."""

    conclusion: Verdict
    difference: float  # iqm of the first minus iqm of the second
    difference_interval: Interval
    probability_of_improvement: float
    probability_interval: Interval
    p: float  # of the rank test


def plain(result: Contrast, conclusion: Verdict) -> Comparison:
    """Return a contrast and its verdict as a report keeps them."""
    difference, probability = result.difference, result.probability
    return Comparison(
        conclusion,
        difference.value,
        difference.interval,
        probability.value,
        probability.interval,
        result.p,
    )


def compare(
    x: ArrayLike,
    y: ArrayLike,
    *,
    shared_seeds: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two tables of scores, [runs] or [runs, tasks] on the same tasks.

    Args:
        x: the first one.
        y: the second.
        shared_seeds: as for `contrast`: whether row i of both had the same random numbers.
        resamples: of the bootstrap.
        seed: of it.

    Raises:
        ValueError: as contrast and strata_of.
    """
    result = contrast(
        strata_of(x), strata_of(y), shared_seeds=shared_seeds, resamples=resamples, seed=seed
    )
    return plain(result, verdict(result, result.p))
