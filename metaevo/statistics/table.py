"""How sure a comparison of training runs is.

The protocol of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021, arXiv 2108.13264): interquartile means, percentile bootstrap intervals
stratified by task, and probabilities of improvement. Scores are arrays [runs] or [runs, tasks],
higher is better; the runs of different tasks are never paired. Everything here is NumPy on the
host and reproducible from ``seed``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]
Verdict = Literal["better", "worse", "undecided"]
Statistic = Callable[..., Any]
"""A reduction called as ``statistic(scores [..., entries], axis=-1) -> [...]``; iqm or np.mean."""

# Resamples are drawn in blocks of at most this many numbers: 64 MiB, however many runs there are.
_BLOCK = 2**23


def _finite(scores: ArrayLike) -> FloatArray:
    """``scores`` as a float array, refused if it is empty or not all finite."""
    array = np.asarray(scores, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"no scores: the array has shape {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise ValueError(
            f"{bad} of {array.size} scores are not finite; replace diverged runs by the worst "
            "score first (replace_diverged)"
        )
    return array


def _by_task(scores: ArrayLike) -> FloatArray:
    """``scores`` [runs] or [runs, tasks] as [runs, tasks]."""
    array = _finite(scores)
    if array.ndim not in (1, 2):
        raise ValueError(f"scores must be [runs] or [runs, tasks], got shape {array.shape}")
    return array.reshape(len(array), -1)


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two sets of scores on the same tasks; their numbers of runs may differ."""
    x, y = _by_task(x), _by_task(y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"scores on {x.shape[1]} and {y.shape[1]} tasks cannot be compared")
    return x, y


@overload
def iqm(scores: ArrayLike, axis: None = None) -> float: ...
@overload
def iqm(scores: ArrayLike, axis: int) -> FloatArray: ...
def iqm(scores: ArrayLike, axis: int | None = None) -> float | FloatArray:
    """Interquartile mean: the mean of the middle half of the scores.

    Of n scores the floor(n / 4) lowest and as many of the highest are left out, rounded down where
    n is no multiple of 4 rather than weighting a score by a fraction: 6 of 10 count, 3 of 3.
    This is ``scipy.stats.trim_mean(scores, 0.25)``, as in rliable.

    ``scores`` have any shape. Without ``axis`` all entries (runs and tasks) are pooled into one
    float; with it, that axis is reduced.

    Raises:
        ValueError: no scores, or some are not finite (the message counts them).
    """
    array = _finite(scores)
    array = array.ravel() if axis is None else np.moveaxis(array, axis, -1)
    cut = array.shape[-1] // 4
    middle = np.sort(array, axis=-1)[..., cut : array.shape[-1] - cut].mean(axis=-1)
    return float(middle) if axis is None else middle


def replace_diverged(scores: ArrayLike, worst: ArrayLike) -> tuple[FloatArray, int]:
    """A copy of the scores with ``worst`` in place of non-finite ones, and how many those were.

    ``scores`` are [runs] or [runs, tasks]; ``worst`` is one score, or one a task [tasks].

    Raises:
        ValueError: ``worst`` is not finite.
    """
    array, floor = np.asarray(scores, dtype=np.float64), _finite(worst)
    diverged = ~np.isfinite(array)
    return np.where(diverged, floor, array), int(diverged.sum())


def _resampled(
    scores: FloatArray, statistic: Statistic, rng: np.random.Generator, resamples: int
) -> FloatArray:
    """The statistic [resamples] of scores [runs, tasks] with the runs of each task redrawn."""
    runs, tasks = scores.shape
    values = np.empty(resamples)
    block = max(1, _BLOCK // scores.size)
    for start in range(0, resamples, block):
        part = values[start : start + block]
        drawn = rng.integers(runs, size=(len(part), runs, tasks))
        picked = np.take_along_axis(scores[np.newaxis], drawn, axis=1)
        part[:] = statistic(picked.reshape(len(part), -1), axis=-1)
    return values


def _redrawn_counts(rng: np.random.Generator, runs: int, size: tuple[int, ...]) -> FloatArray:
    """[*size, runs]: how often each run is in a bootstrap sample; a row sums to ``runs``.

    A statistic that is linear in the runs needs these counts only, never the samples themselves.
    """
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=size).astype(np.float64)


def _percentiles(values: FloatArray, confidence: float) -> Interval:
    low, high = np.quantile(values, _tails(confidence))
    return float(low), float(high)


def _tails(confidence: float) -> Interval:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    return (1 - confidence) / 2, (1 + confidence) / 2


def stratified_bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = iqm,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval (low, high) of a statistic over all entries.

    The runs of each task are redrawn with replacement independently of the other tasks' (Agarwal
    et al. 2021, section 4.1). Few runs make the interval too narrow: it needs about 10 of them to
    hold what it promises, and one run gives an interval of no width. ``scores`` are [runs] or
    [runs, tasks]; ``statistic`` is a reduction that takes ``axis``: iqm, np.mean, np.median.

    Raises:
        ValueError: scores of another rank, none, or some not finite; confidence not in (0, 1).
    """
    rng = np.random.default_rng(seed)
    return _percentiles(_resampled(_by_task(scores), statistic, rng, resamples), confidence)


def difference_interval(
    x: ArrayLike,
    y: ArrayLike,
    statistic: Statistic = iqm,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval (low, high) of statistic(x) - statistic(y), the two redrawn independently.

    ``x`` and ``y`` are [runs] or [runs, tasks] on the same tasks, with any numbers of runs.

    Raises:
        ValueError: as stratified_bootstrap_interval, or different numbers of tasks.
    """
    x, y = _pair(x, y)
    rng = np.random.default_rng(seed)
    difference = _resampled(x, statistic, rng, resamples) - _resampled(y, statistic, rng, resamples)
    return _percentiles(difference, confidence)


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """[tasks, runs of x, runs of y]: 1 where the run of x scores more, 0.5 where they tie."""
    return 0.5 + 0.5 * np.sign(x.T[:, :, np.newaxis] - y.T[:, np.newaxis, :])


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """P(X > Y) + P(X = Y) / 2 of one run each on the same task, averaged over tasks.

    On one task it is the Mann-Whitney U of x divided by both numbers of runs (Agarwal et al. 2021,
    section 4.3). ``x`` and ``y`` are as in difference_interval.

    Raises:
        ValueError: as difference_interval.
    """
    return float(_wins(*_pair(x, y)).mean())


def probability_of_improvement_interval(
    x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Stratified bootstrap interval (low, high) of probability_of_improvement(x, y).

    Raises:
        ValueError: as difference_interval.
    """
    x, y = _pair(x, y)
    rng, tasks = np.random.default_rng(seed), x.shape[1]
    # Tasks come first, so that the product over the runs of x is one matrix product a task.
    of_x = _redrawn_counts(rng, len(x), (tasks, resamples))
    of_y = _redrawn_counts(rng, len(y), (tasks, resamples))
    wins = ((of_x @ _wins(x, y)) * of_y).sum(axis=-1)  # exact: sums of halves
    return _percentiles((wins / (len(x) * len(y))).mean(axis=0), confidence)


@dataclass(frozen=True)
class Summary:
    """What a table says of one variant's scores."""

    iqm: float
    interval: Interval  # 95% stratified bootstrap, of the interquartile mean
    mean: float
    std: float  # between the runs of a task (n - 1), root mean square over tasks; 0 for one run
    seeds: int  # runs a task


def summarise(scores: ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Summary:
    """Summary of scores [runs] or [runs, tasks]; raises as stratified_bootstrap_interval."""
    array = _by_task(scores)
    variance = array.var(axis=0, ddof=1).mean() if len(array) > 1 else 0.0
    return Summary(
        iqm=iqm(array),
        interval=stratified_bootstrap_interval(array, resamples=resamples, seed=seed),
        mean=float(array.mean()),
        std=float(np.sqrt(variance)),
        seeds=len(array),
    )


class Comparison(NamedTuple):
    """What a report says of the learned variant against one other."""

    conclusion: Verdict
    difference: float  # iqm of the learned one minus iqm of the other
    difference_interval: Interval
    probability_of_improvement: float
    probability_interval: Interval


def compare(
    learned: ArrayLike,
    baseline: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Whether the learned variant beats the baseline, by how much, and how sure that is.

    It is "better" if the interval of the difference of interquartile means lies above 0, "worse"
    if below. It is "undecided" if the interval holds 0, and also if there are so few runs that not
    even a rank test of completely separated scores would be significant (fewer than 4 against 4 on
    one task): the bootstrap is blindly sure there, above all with a single run. Both arguments are
    as in difference_interval.

    Raises:
        ValueError: as difference_interval.
    """
    x, y = _pair(learned, baseline)
    low, high = difference_interval(x, y, confidence=confidence, resamples=resamples, seed=seed)
    separable = 2 / comb(len(x) + len(y), len(x)) ** x.shape[1] <= 1 - confidence
    # Means of equal scores over different numbers of runs differ in their last digits.
    rounding = 1e-12 * max(np.abs(x).max(), np.abs(y).max())
    verdict: Verdict = "undecided"
    if separable and low > rounding:
        verdict = "better"
    elif separable and high < -rounding:
        verdict = "worse"
    probability = probability_of_improvement_interval(
        x, y, confidence=confidence, resamples=resamples, seed=seed
    )
    return Comparison(
        verdict, iqm(x) - iqm(y), (low, high), probability_of_improvement(x, y), probability
    )


def conclusion(learned: ArrayLike, baseline: ArrayLike, *, confidence: float = 0.95) -> Verdict:
    """The one word of compare(learned, baseline)."""
    return compare(learned, baseline, confidence=confidence).conclusion


def mean_curve(
    curves: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over seeds of learning curves and its pointwise percentile bootstrap interval.

    ``curves`` are [seeds, points]; mean, low and high are [points] each. Whole seeds are redrawn. A
    non-finite value (no finished episode yet) is missing, not zero; a point no seed has is NaN.

    Raises:
        ValueError: not [seeds, points], or no seeds.
    """
    array = np.asarray(curves, dtype=np.float64)
    if array.ndim != 2 or len(array) == 0:
        raise ValueError(f"learning curves must be [seeds, points], got shape {array.shape}")
    tails = _tails(confidence)
    present = np.isfinite(array)
    known = present.any(axis=0)
    present, filled = present[:, known], np.where(present, array, 0.0)[:, known]
    counts = _redrawn_counts(np.random.default_rng(seed), len(array), (resamples,))
    result = np.full((3, array.shape[1]), np.nan)
    result[0, known] = filled.sum(axis=0) / present.sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0: a resample without any seed that has this point
        means = (counts @ filled) / (counts @ present)
    result[1:, known] = np.nanquantile(means, tails, axis=0)
    return result[0], result[1], result[2]
