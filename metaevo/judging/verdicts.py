"""Verdicts, and the resamples behind their intervals.

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
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import comb

from metaevo.statistics import FloatArray, Interval, interval_of, iqm

FEWEST_SEEDS = 16
"""Minimum number of held-out seeds for a verdict."""
FEWEST_SETTINGS = 64
"""Minimum number of settings for a verdict on tuned contenders."""

Word = Literal["better", "worse", "not worse", "undecided", "too few to conclude"]


class Sample(NamedTuple):
    """A score or a difference of scores, in R resamples."""

    value: float
    deviations: FloatArray
    """[R] from the value"""

    def minus(self, other: "Sample") -> "Sample":
        """Return the difference of two scores that share their resamples."""
        return Sample(self.value - other.value, self.deviations - other.deviations)

    def interval(self, units: int) -> Interval:
        """Return the 95% interval.

        Percentiles; with several evolutions, which are few units, Student's t interval with the
        resamples' standard deviation. Resampling n units has the variance of n, not of n - 1.
        """
        if units == 1:
            low, high = interval_of(self.deviations)
            return self.value + low, self.value + high
        import scipy.stats  # takes half a second, which scripts that only train need not wait

        reach = float(scipy.stats.t.ppf(0.975, units - 1)) * np.sqrt(units / (units - 1))
        reach *= float(self.deviations.std())
        return self.value - reach, self.value + reach


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


@dataclass(frozen=True)
class Verdict:
    """A contender or group against the best hand-written contender, after equal tuning."""

    word: Word
    name: str
    """the contender or group"""
    baseline: str
    """the best hand-written contender"""
    difference: float
    """score minus that of the baseline"""
    interval: Interval
    """95%; its low end holds against every baseline"""
    settings: int
    """number of settings that each contender tried in addition to its untuned one"""
    drift: float
    """change of the difference when the number of settings was last doubled"""
    margin: float = 0.0
    """a loss below this is "not worse" """

    @property
    def label(self) -> str:
        """The word, "not worse" with its margin."""
        return f"not worse (by {self.margin:g})" if self.word == "not worse" else self.word

    def __str__(self) -> str:
        tried = f"after {self.settings} settings each" if self.settings else "without tuning"
        if self.word == "undecided":
            return f"It is undecided whether {self.name} is better than {self.baseline} {tried}."
        if self.word == "too few to conclude":
            return f"{self.name} against {self.baseline}: too few to conclude {tried}."
        by = f" by {self.margin:g} or more" if self.word == "not worse" else ""
        return f"{self.name} is {self.word} than {self.baseline}{by} {tried}."


class Resamples:
    """The scores of C contenders over T tasks, with R resamples."""

    def __init__(
        self,
        settings: int,
        finalists: np.ndarray,
        selection: FloatArray,
        held_out: FloatArray,
        resamples: int,
    ):
        """Redraw settings and seeds, and score all contenders.

        Args:
            settings: number of settings, with the untuned one.
            finalists: [C, T, K] indices of settings, 0 first; -1 for none.
            selection: [C, T, K, seeds], NaN for no score.
            held_out: [C, T, K, seeds], without NaN.
            resamples: R.
        """
        rng = np.random.default_rng(0)
        order = rng.random((resamples, settings))
        drawn, seeds = selection.shape[3], held_out.shape[3]
        shares, places = [], []
        for _ in range(held_out.shape[1]):
            counts = np.zeros((resamples, 0))
            if drawn:
                counts = rng.multinomial(drawn, np.full(drawn, 1 / drawn), resamples) / drawn
            shares.append(counts)
            places.append(rng.integers(seeds, size=(resamples, seeds)))
        self._order, self._places = order, places
        self._finalists, self._held_out = finalists, held_out
        means = np.stack(shares) @ selection.swapaxes(2, 3)
        self._means = np.where(np.isfinite(means), means, -np.inf)  # [C, T, R, K]
        self.values = np.array([self._value(each) for each in range(len(held_out))])
        """[C] scores"""
        found = np.stack([self._redrawn(each) for each in range(len(held_out))])
        self.deviations = found - found.mean(axis=1, keepdims=True)
        """[C, R] of the scores in the resamples"""

    def sample(self, members: Sequence[int]) -> Sample:
        """Return the mean score of some contenders, with its deviations.

        Of several, which are the evolutions of a discovery, resamples redraw them, too.
        """
        value = float(self.values[members].mean())
        if len(members) == 1:
            return Sample(value, self.deviations[members[0]])
        redrawn = self.values[members, np.newaxis] + self.deviations[members]
        resamples = redrawn.shape[1]
        chosen = np.random.default_rng(1).integers(len(members), size=(len(members), resamples))
        return Sample(value, redrawn[chosen, np.arange(resamples)].mean(axis=0) - value)

    def expected(self, contender: int) -> FloatArray:
        """Return the expected score [K] of the winner among 0 to K - 1 finalists; see `best_of`."""
        rows = zip(
            self._finalists[contender],
            self._held_out[contender],
            self._means[contender],
            strict=True,
        )
        return np.mean([best_of(iqm(held_out, axis=1), means, int((finalists > 0).sum()))
                        for finalists, held_out, means in rows], axis=0)  # fmt: skip

    def _value(self, contender: int) -> float:
        """Return the expected interquartile mean of a contender's winner.

        The held-out scores of the finalists are averaged by how often each one wins on redrawn
        selection seeds (bagging, Breiman 1996). Finalists that are almost equal share their luck on
        the held-out seeds, so this varies less than the score of the single winner.
        """
        winners = self._means[contender].argmax(axis=2)
        distinct, counts = np.unique(winners.T, axis=0, return_counts=True)
        tasks = np.arange(len(winners))
        values = [iqm(self._held_out[contender, tasks, row]) for row in distinct]
        return float(np.average(values, weights=counts))

    def _redrawn(self, contender: int) -> FloatArray:
        """Return a contender's scores [R] with redrawn settings and seeds."""
        scores = []
        for task, places in enumerate(self._places):
            finalists = self._finalists[contender, task]
            tuned = finalists > 0
            order = np.where(tuned, self._order[:, finalists], np.inf)
            kept = order.argsort(axis=1).argsort(axis=1) < -(-tuned.sum() // 2)
            kept[:, 0] = True
            winners = np.where(kept, self._means[contender, task], -np.inf).argmax(axis=1)
            scores.append(self._held_out[contender, task][winners[:, np.newaxis], places])
        return iqm(np.concatenate(scores, axis=1), axis=1)


def best_of(values: FloatArray, means: FloatArray, tuned: int) -> FloatArray:
    """Return the expected value [K] of the winner among 0 to K - 1 tuned finalists.

    The mean over all subsets of a size of the finalists (Dodge et al. 2019), without replacement
    and therefore unbiased (Tang et al. 2020), and over resamples. The untuned setting, 0, is in
    every subset. So many finalists stand for the same share of the settings.

    Args:
        values: [K] of the finalists.
        means: [R, K] scores that choose the winner.
        tuned: number of finalists that are not the untuned setting: K - 1, or 0.
    """
    total = len(values) - 1
    found = np.full(total + 1, values[0])
    if not tuned:
        return found
    above = means > means[:, :1]
    ranks = (-means).argsort(axis=1, kind="stable").argsort(axis=1)
    for size in range(1, total + 1):
        # The best of a subset has each of the ranks; no finalist ranks below all others.
        chances = np.append(comb(total - 1 - np.arange(total), size - 1) / comb(total, size), 0.0)
        chosen = np.where(above, chances[ranks], 0.0).mean(axis=0)
        found[size] = values[0] + chosen @ (values - values[0])
    return found
