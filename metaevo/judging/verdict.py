"""The rule for verdicts."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from metaevo.reports.page import estimate
from metaevo.statistics.scores import FloatArray, Interval

FEWEST_SEEDS = 16
"""Minimum number of held-out seeds for a verdict."""
FEWEST_SETTINGS = 64
"""Minimum number of settings for a verdict on tuned contenders."""

Word = Literal["better", "worse", "not worse", "undecided", "too few to conclude"]


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

    def __str__(self) -> str:
        numbers = estimate(self.difference, *self.interval, sign=True)
        tried = f"after {self.settings} settings each" if self.settings else "without tuning"
        if self.word == "undecided":
            return f"{self.name} against {self.baseline}: undecided, {numbers} {tried}."
        if self.word == "too few to conclude":
            return f"{self.name} against {self.baseline}: {numbers} {tried}, {self.word}."
        by = f" (margin {self.margin:g})" if self.word == "not worse" else ""
        return f"{self.name} is {self.word} than {self.baseline}{by}: {numbers} {tried}."


def judged(
    *,
    name: str,
    baselines: tuple[str, ...],
    differences: FloatArray,
    lows: FloatArray,
    high: float,
    drifts: FloatArray,
    settings: int,
    seeds: int,
    margin: float,
) -> Verdict:
    """Return the verdict from differences [baselines] and their drifts [baselines].

    - "better" must hold against every baseline (an intersection-union test, Berger 1982), and still
      hold if the number of settings doubled once more and every difference changed by as much as it
      did when this number was last doubled. "worse" is symmetric.
    - A difference that would not hold, or a small judgement, is "too few to conclude".

    Args:
        name: of the contender or group.
        baselines: names of hand-written contenders.
        differences: from each of them.
        lows: lower ends of the 95% intervals.
        high: upper end for the smallest difference, corrected for the choice of the baseline.
        drifts: difference for all settings minus that for half of them.
        settings: number of settings that were tried, 0 for no tuning.
        seeds: number of held-out seeds.
        margin: of "not worse".
    """
    best = int(differences.argmin())
    low, drift = float(lows.min()), float(drifts[best])
    word: Word = "undecided"
    if seeds < FEWEST_SEEDS or 0 < settings < FEWEST_SETTINGS:
        word = "too few to conclude"
    elif low > 0:
        lasts = (lows + np.minimum(drifts, 0.0) > 0).all()
        word = "better" if lasts else "too few to conclude"
    elif high < 0:
        word = "worse" if high + max(drift, 0.0) < 0 else "too few to conclude"
    elif low > -margin:
        word = "not worse"
    return Verdict(
        word,
        name,
        baselines[best],
        float(differences[best]),
        (low, float(high)),
        settings,
        drift,
        margin,
    )
