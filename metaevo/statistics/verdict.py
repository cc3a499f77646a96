"""Comparisons of two groups, and one rule for verdicts."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.intervals import (
    RESAMPLES,
    Estimate,
    bootstrap,
    interval_of,
    pooled_iqm,
    probability_of_improvement,
)
from metaevo.statistics.ranks import rank_test, signed_rank_test
from metaevo.statistics.scores import Interval, Strata, arrays_of, iqm, strata_of

Verdict = Literal["better", "worse", "undecided"]


class Comparison(NamedTuple):
    """A comparison of two groups, x and y."""

    conclusion: Verdict
    difference: float
    """interquartile mean of x minus interquartile mean of y"""
    difference_interval: Interval
    probability_of_improvement: float
    """probability that a run of x scores higher than a run of y"""
    probability_interval: Interval
    p: float
    """p-value of the rank test"""


def compare(x: ArrayLike, y: ArrayLike, *, shared_seeds: bool = False) -> Comparison:
    """Compare two tables of scores, [runs] or [runs, tasks] on the same tasks.

    Args:
        x: the first one.
        y: the second.
        shared_seeds: whether row i of both had the same random numbers.

    Raises:
        ValueError: as `compare_strata` and `strata_of`.
    """
    return compare_strata(strata_of(x), strata_of(y), shared_seeds=shared_seeds)


def compare_strata(
    x: Strata, y: Strata, *, shared_seeds: bool = False, resamples: int = RESAMPLES
) -> Comparison:
    """Compare two groups on the same tasks, with any numbers of runs.

    With `shared_seeds`, x[task][i] and y[task][i] had the same random numbers. The bootstrap then
    resamples pairs and the rank test is paired, which removes the variation that both owe to their
    seed.

    Raises:
        ValueError: different numbers of tasks, or of runs with shared seeds, or scores that are
            not finite.
    """
    xs, ys = arrays_of(x), arrays_of(y)
    if len(xs) != len(ys):
        raise ValueError(f"scores on {len(xs)} and {len(ys)} tasks cannot be compared")
    if shared_seeds and [len(each) for each in xs] != [len(each) for each in ys]:
        raise ValueError("groups that share their seeds must have as many runs on every task")
    rng = np.random.default_rng(0)
    of_x = bootstrap(xs, pooled_iqm, rng, resamples)
    if shared_seeds:
        rng = np.random.default_rng(0)  # the same draws again
    of_y = bootstrap(ys, pooled_iqm, rng, resamples)
    difference = Estimate(
        iqm(np.concatenate(xs)) - iqm(np.concatenate(ys)), interval_of(of_x - of_y)
    )
    probability = probability_of_improvement(xs, ys, resamples=resamples)
    p = (signed_rank_test if shared_seeds else rank_test)(xs, ys)
    found = Comparison("undecided", *difference, *probability, p)
    return found._replace(conclusion=verdict(found, p))


def verdict(result: Comparison, adjusted_p: float) -> Verdict:
    """Return the verdict, which is undecided unless the interval and the rank test agree.

    Bootstrap intervals of few runs are too narrow. The rank test holds its level with any number
    of runs; with fewer than 4 against 4 on one task its p-value is always above 0.05.
    """
    low, high = result.difference_interval
    if adjusted_p > 0.05:
        return "undecided"
    # They can disagree on the direction, because a heavy tail moves the ranks, not the middle.
    if low > 0 and result.probability_of_improvement > 0.5:
        return "better"
    if high < 0 and result.probability_of_improvement < 0.5:
        return "worse"
    return "undecided"
