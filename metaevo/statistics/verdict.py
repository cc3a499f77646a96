"""Verdicts: one rule for two groups, and for one group against the best of several."""

from collections.abc import Sequence
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
from metaevo.statistics.scores import FloatArray, Interval, Strata, arrays_of, iqm_of, strata_of

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
        ValueError: different numbers of tasks, or scores that are not finite.
    """
    xs, ys = arrays_of(x), arrays_of(y)
    if len(xs) != len(ys):
        raise ValueError(f"scores on {len(xs)} and {len(ys)} tasks cannot be compared")
    of_x, of_y = _redrawn([xs, ys], shared_seeds, resamples)
    return _concluded(
        Estimate(iqm_of(xs) - iqm_of(ys), interval_of(of_x - of_y)),
        probability_of_improvement(xs, ys, resamples=resamples),
        _test(xs, ys, shared_seeds),
    )


def _redrawn(groups: Sequence[Strata], shared: bool, resamples: int) -> list[FloatArray]:
    """Return interquartile means [resamples] of resampled groups, by equal draws if shared.

    Raises:
        ValueError: groups with shared seeds differ in their numbers of runs.
    """
    if shared and len({tuple(map(len, arrays_of(each))) for each in groups}) > 1:
        raise ValueError("groups that share their seeds must have as many runs on every task")
    rng = np.random.default_rng(0)
    rngs = [np.random.default_rng(0) if shared else rng for _ in groups]
    return [
        bootstrap(group, pooled_iqm, own, resamples)
        for group, own in zip(groups, rngs, strict=True)
    ]


def _test(x: Strata, y: Strata, shared: bool) -> float:
    return (signed_rank_test if shared else rank_test)(x, y)


def _concluded(difference: Estimate, probability: Estimate, p: float) -> Comparison:
    """Return a comparison with its verdict."""
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
