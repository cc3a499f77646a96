"""Statistics to compare training runs: intervals, rank tests, and a single rule for verdicts.

The protocol of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021, arXiv 2108.13264): interquartile means, percentile bootstrap intervals
stratified by task, and probabilities of improvement. Higher scores are better; runs are redrawn
within their task only, and paired if the caller declares that they share seeds.

The scores of a group are `Runs`: a table [runs] or [runs, tasks], or a mapping of each task to its
scores [runs], of which there may be any number. Random numbers have a fixed seed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics import ENDS, Estimate, FloatArray, check_finite, interval_of, iqm

Runs = ArrayLike | Mapping[str, ArrayLike]
Verdict = Literal["better", "worse", "undecided"]

RESAMPLES = 2000
FEWEST_PAIRS = 6
"""Fewer runs with shared seeds are always undecided: p of the signed-rank test is above 0.05."""
_PERMUTATIONS = 20_000


class Comparison(NamedTuple):
    """A comparison of two groups, x and y."""

    conclusion: Verdict
    difference: Estimate
    """interquartile mean of x minus interquartile mean of y"""
    probability_of_improvement: Estimate
    """probability that a run of x scores higher than a run of y"""
    p: float
    """p-value of the rank test"""


def strata_of(scores: Runs) -> list[FloatArray]:
    """Return the scores [runs] of each task.

    Raises:
        ValueError: another rank, no scores, or some are not finite.
    """
    if isinstance(scores, Mapping):
        arrays = [np.asarray(each, np.float64) for each in scores.values()]
    else:
        table = np.asarray(scores, np.float64)
        arrays = list(table.T) if table.ndim == 2 else [table]
    if any(each.ndim != 1 for each in arrays):
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise ValueError(f"scores must be [runs] or [runs, tasks], got shape {shapes}")
    if not arrays or not all(each.size for each in arrays):
        raise ValueError("no scores: every task must have at least one run")
    check_finite(np.concatenate(arrays))
    return arrays


def estimate(scores: Runs, *, resamples: int = RESAMPLES) -> Estimate:
    """Interquartile mean over the runs of all tasks, with its stratified bootstrap interval.

    The runs of each task are redrawn with replacement independently of the other tasks' (Agarwal
    et al. 2021, section 4.1). With few runs the interval is too narrow: its coverage is close to
    nominal from about 10 runs, and a single run gives an interval of zero width.
    """
    strata = strata_of(scores)
    redrawn = _redrawn_iqms(strata, np.random.default_rng(0), resamples)
    return Estimate(iqm(np.concatenate(strata)), interval_of(redrawn))


def summarise(scores: ArrayLike) -> dict[str, Any]:
    """Return scores [seeds], and seeds, mean, iqm and interval of the finite ones, or None."""
    array = np.asarray(scores, np.float64)
    known = array[np.isfinite(array)]
    row = {"scores": array, "seeds": len(known)}
    if not len(known):
        return {**row, "mean": None, "iqm": None, "interval": (None, None)}
    iqm, interval = estimate(known)
    return {**row, "mean": float(known.mean()), "iqm": iqm, "interval": interval}


def mean_curve(curves: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
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
    counts = _redrawn_counts(np.random.default_rng(0), len(array), RESAMPLES)
    result = np.full((3, array.shape[1]), np.nan)
    result[0, known] = filled.sum(axis=0) / present.sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0: a resample without any seed that has this point
        means = (counts @ filled) / (counts @ present)
    result[1:, known] = np.nanquantile(means, ENDS, axis=0)
    return result[0], result[1], result[2]


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


def _redrawn_iqms(
    strata: Sequence[FloatArray], rng: np.random.Generator, resamples: int
) -> FloatArray:
    """Return interquartile means [resamples] with the runs of each task redrawn."""
    redrawn = [each[rng.integers(len(each), size=(resamples, len(each)))] for each in strata]
    return iqm(np.concatenate(redrawn, axis=1), axis=1)


def _redrawn_counts(rng: np.random.Generator, runs: int, resamples: int) -> FloatArray:
    """Return [resamples, runs]: how often each run is in a bootstrap sample.

    A statistic that is linear in the runs needs these counts only, never the samples themselves.
    """
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples).astype(np.float64)


def compare(
    x: Runs, y: Runs, *, shared_seeds: bool = False, resamples: int = RESAMPLES
) -> Comparison:
    """Compare two groups on the same tasks, in the same order.

    With `shared_seeds`, run i of both had the same random numbers on a task. The bootstrap then
    resamples pairs and the rank test is paired, which removes the variation that both owe to their
    seed.

    Raises:
        ValueError: different numbers of tasks, or of runs with shared seeds, or scores that are
            not finite.
    """
    xs, ys = strata_of(x), strata_of(y)
    if len(xs) != len(ys):
        raise ValueError(f"scores on {len(xs)} and {len(ys)} tasks cannot be compared")
    if shared_seeds and [len(each) for each in xs] != [len(each) for each in ys]:
        raise ValueError("groups that share their seeds must have as many runs on every task")
    rng = np.random.default_rng(0)
    of_x = _redrawn_iqms(xs, rng, resamples)
    if shared_seeds:
        rng = np.random.default_rng(0)  # the same draws again
    interval = interval_of(of_x - _redrawn_iqms(ys, rng, resamples))
    found = Comparison(
        "undecided",
        Estimate(iqm(np.concatenate(xs)) - iqm(np.concatenate(ys)), interval),
        probability_of_improvement(x, y, resamples=resamples),
        (signed_rank_test if shared_seeds else rank_test)(x, y),
    )
    return found._replace(conclusion=verdict(found, found.p))


def verdict(result: Comparison, adjusted_p: float) -> Verdict:
    """Return the verdict, which is undecided unless the interval and the rank test agree.

    Bootstrap intervals of few runs are too narrow. The rank test holds its level with any number
    of runs; with fewer than 4 against 4 on one task its p-value is always above 0.05.
    """
    low, high = result.difference.interval
    if adjusted_p > 0.05:
        return "undecided"
    # They can disagree on the direction, because a heavy tail moves the ranks, not the middle.
    if low > 0 and result.probability_of_improvement.value > 0.5:
        return "better"
    if high < 0 and result.probability_of_improvement.value < 0.5:
        return "worse"
    return "undecided"


def probability_of_improvement(x: Runs, y: Runs, *, resamples: int = RESAMPLES) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 of one run each on the same task, averaged over tasks.

    On one task it is the Mann-Whitney U of x divided by both numbers of runs (Agarwal et al. 2021,
    section 4.3).
    """
    rng, means, redrawn = np.random.default_rng(0), [], []
    for a, b in zip(strata_of(x), strata_of(y), strict=True):
        wins = 0.5 + 0.5 * np.sign(a[:, np.newaxis] - b)
        of_a = _redrawn_counts(rng, len(a), resamples)
        of_b = _redrawn_counts(rng, len(b), resamples)
        means.append(wins.mean())
        redrawn.append(((of_a @ wins) * of_b).sum(axis=1) / wins.size)
    return Estimate(float(np.mean(means)), interval_of(np.mean(redrawn, axis=0)))


def rank_test(x: Runs, y: Runs) -> float:
    """Two-sided p-value of the hypothesis that x and y are exchangeable within each task.

    On one task this is the Mann-Whitney test, exact for few runs without ties. On several tasks the
    statistic is the sum over tasks of U divided by its largest value; its distribution is normal
    with more than 8 runs per group on every task, otherwise estimated by permutations (also for few
    runs with ties).
    """
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    pairs = list(zip(strata_of(x), strata_of(y), strict=True))
    ties = any(len(np.unique(np.r_[a, b])) < len(a) + len(b) for a, b in pairs)
    large = all(min(len(a), len(b)) > 8 for a, b in pairs)
    observed, variance, tables = 0.0, 0.0, []
    for a, b in pairs:
        ranks = scipy.stats.rankdata(np.r_[a, b]) / (len(a) * len(b))
        ranks -= ranks.mean()
        observed += ranks[: len(a)].sum()
        variance += len(a) * len(b) * ranks.var(ddof=1) / len(ranks)
        tables.append((ranks, len(a)))
    if variance == 0:
        return 1.0
    if len(pairs) == 1 and (large or not ties):
        return float(scipy.stats.mannwhitneyu(*pairs[0], alternative="two-sided").pvalue)
    if large:
        return float(2 * scipy.stats.norm.sf(abs(observed) / np.sqrt(variance)))
    rng, drawn = np.random.default_rng(0), np.zeros(_PERMUTATIONS)
    for ranks, count in tables:
        permuted = rng.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
        drawn += permuted[:, :count].sum(axis=1)
    extreme = np.abs(drawn) >= abs(observed) - 1e-9
    return float((1 + extreme.sum()) / (1 + _PERMUTATIONS))


def signed_rank_test(x: Runs, y: Runs) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test on the pairs of all tasks; 1 if all tie.

    Run i of x and run i of y on a task are partners: they used the same random numbers.
    """
    import scipy.stats

    difference = np.concatenate(strata_of(x)) - np.concatenate(strata_of(y))
    difference = difference[difference != 0]
    return float(scipy.stats.wilcoxon(difference).pvalue) if len(difference) else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple tests by Holm's method (1979)."""
    order = np.argsort(p_values)
    adjusted, largest = np.empty(len(order)), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]
