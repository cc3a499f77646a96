"""Resampling of a judgement: settings, seeds, and the choice of the winner by the stored scores.

The score of a tuned contender is random in three ways: the settings that it happened to try, the
seeds that chose among the finalists, and the held-out seeds. A resample repeats all three. It keeps
half of the settings without replacement, because a bootstrap with replacement is inconsistent for a
maximum (Bickel & Freedman 1981; Politis & Romano 1994), redraws the selection seeds and the
held-out seeds with replacement, and takes the held-out scores of the finalist that then wins. Half
of the settings have half of the finalists: others were never trained. All contenders share the
redrawn settings and seeds, as they share the real ones.

A resample has fewer settings, so its scores are lower. Only their deviations from their mean are
used, around the estimate from all settings.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import comb

from metaevo.statistics.scores import FloatArray, Interval, iqm

RESAMPLES = 1000


class Tuning(NamedTuple):
    """The scores of one contender on one task; setting 0 is untuned."""

    screening: FloatArray
    """[N, s] of all settings, NaN for no score"""
    finalists: np.ndarray
    """[K] indices of settings, 0 first; -1 for none"""
    selection: FloatArray
    """[K, S], NaN for no score"""
    held_out: FloatArray
    """[K, H], without NaN"""


class Curve(NamedTuple):
    """Expected held-out score against the number of settings."""

    settings: np.ndarray
    """[K] numbers of settings in addition to the untuned one"""
    scores: FloatArray
    """[K]"""

    @property
    def half(self) -> float:
        """Score for half of the settings."""
        return float(np.interp(self.settings[-1] / 2, *self))


class Redraw(NamedTuple):
    """What all contenders share in R resamples."""

    order: FloatArray
    """[R, N] random numbers; of its finalists a contender keeps the half with the lowest ones"""
    selection: list[FloatArray]
    """for each task: [R, S] how often each selection seed is drawn, as a share"""
    held_out: list[np.ndarray]
    """for each task: [R, H] indices of held-out seeds"""


def redraw(tasks: Sequence[Tuning], resamples: int) -> Redraw:
    """Draw settings and seeds, given any contender's scores on all tasks."""
    rng = np.random.default_rng(0)
    order = rng.random((resamples, len(tasks[0].screening)))
    selection, held_out = [], []
    for each in tasks:
        drawn, seeds = each.selection.shape[1], each.held_out.shape[1]
        counts = np.zeros((resamples, 0))
        if drawn:
            counts = rng.multinomial(drawn, np.full(drawn, 1 / drawn), resamples) / drawn
        selection.append(counts)
        held_out.append(rng.integers(seeds, size=(resamples, seeds)))
    return Redraw(order, selection, held_out)


def means(tuning: Tuning, weights: FloatArray) -> FloatArray:
    """Return the finalists' mean scores [R, K] on weighted selection seeds [R, S].

    -inf where a score is missing, so that such a setting cannot win.
    """
    found = weights @ tuning.selection.T
    return np.where(np.isfinite(found), found, -np.inf)


def estimate(tunings: Sequence[Tuning], drawn: Redraw) -> float:
    """Return a contender's score: the expected interquartile mean of its winner.

    The held-out scores of the finalists are averaged by how often each one wins on redrawn
    selection seeds (bagging, Breiman 1996). Finalists that are almost equal share their luck on the
    held-out seeds, so this varies less than the score of the single winner.
    """
    pairs = zip(tunings, drawn.selection, strict=True)
    winners = np.stack([means(each, weights).argmax(axis=1) for each, weights in pairs], axis=1)
    distinct, counts = np.unique(winners, axis=0, return_counts=True)
    values = [
        iqm(np.concatenate([each.held_out[k] for each, k in zip(tunings, row, strict=True)]))
        for row in distinct
    ]
    return float(np.average(values, weights=counts))


def resampled(tunings: Sequence[Tuning], drawn: Redraw) -> FloatArray:
    """Return a contender's scores [R] with redrawn settings and seeds."""
    scores = []
    for each, weights, seeds in zip(tunings, drawn.selection, drawn.held_out, strict=True):
        tuned = each.finalists > 0
        order = np.where(tuned, drawn.order[:, each.finalists], np.inf)
        kept = order.argsort(axis=1).argsort(axis=1) < -(-tuned.sum() // 2)
        kept[:, 0] = True
        winners = np.where(kept, means(each, weights), -np.inf).argmax(axis=1)
        scores.append(each.held_out[winners[:, np.newaxis], seeds])
    return iqm(np.concatenate(scores, axis=1), axis=1)


def expected(tuning: Tuning, weights: FloatArray) -> FloatArray:
    """Return the expected held-out score [K] of the winner among 0 to K - 1 finalists.

    The mean over all subsets of a size of the finalists (Dodge et al. 2019), without replacement
    and therefore unbiased (Tang et al. 2020), and over redrawn selection seeds. The untuned setting
    is in every subset. So many finalists stand for the same share of the settings.

    Args:
        tuning: of a contender on a task.
        weights: [R, S] of redrawn selection seeds.
    """
    values, others = iqm(tuning.held_out, axis=1), int((tuning.finalists > 0).sum())
    count = len(values) - 1
    if not others:
        return np.full(count + 1, values[0])
    order = means(tuning, weights)
    above = order > order[:, :1]
    ranks = (-order).argsort(axis=1, kind="stable").argsort(axis=1)
    found = np.zeros(count + 1)
    for size in range(count + 1):
        chosen = np.where(above, first_of(count, size)[ranks], 0.0).mean(axis=0)
        found[size] = values[0] + chosen @ (values - values[0])
    return found


def first_of(total: int, size: int) -> FloatArray:
    """Return the probability [total + 1] that the best of a subset has each rank among all.

    The last one, of no element at all, is 1 for the empty subset.
    """
    if not size:
        return np.append(np.zeros(total), 1.0)
    found = comb(total - 1 - np.arange(total), size - 1) / comb(total, size)
    return np.append(found, 0.0)


class View(NamedTuple):
    """The scores of all contenders over some tasks, and their resamples."""

    tunings: Sequence[Sequence[Tuning]]
    """[C][T]"""
    drawn: Redraw
    scores: FloatArray
    """[C]"""
    deviations: FloatArray
    """[C, R]"""

    @classmethod
    def of(cls, tunings: Sequence[Sequence[Tuning]]) -> "View":
        """Resample the scores of contenders, [C][T]."""
        drawn = redraw(tunings[0], RESAMPLES)
        found = np.stack([resampled(each, drawn) for each in tunings])
        scores = np.array([estimate(each, drawn) for each in tunings])
        return cls(tunings, drawn, scores, found - found.mean(axis=1, keepdims=True))

    def sample(self, members: Sequence[int]) -> tuple[float, FloatArray]:
        """Return the mean score of some contenders and its deviations [R].

        Of several, which are the evolutions of a discovery, resamples redraw them, too.
        """
        value = float(self.scores[members].mean())
        if len(members) == 1:
            return value, self.deviations[members[0]]
        redrawn = self.scores[members, np.newaxis] + self.deviations[members]
        resamples = redrawn.shape[1]
        chosen = np.random.default_rng(1).integers(len(members), size=(len(members), resamples))
        return value, redrawn[chosen, np.arange(resamples)].mean(axis=0) - value


def interval(value: float, deviations: FloatArray, units: int) -> Interval:
    """Return the 95% interval of a value with deviations [R] in the resamples.

    Percentiles; with several evolutions, which are few units, Student's t interval with the
    resamples' standard deviation. Resampling n units has the variance of n, not of n - 1.
    """
    if units > 1:
        import scipy.stats  # takes half a second, which scripts that only train need not wait

        reach = float(scipy.stats.t.ppf(0.975, units - 1)) * np.sqrt(units / (units - 1))
        return value - reach * float(deviations.std()), value + reach * float(deviations.std())
    low, high = np.quantile(deviations, [0.025, 0.975])
    return value + float(low), value + float(high)
