"""Entries of a search space: Optuna's ranges, and choices between values of any type."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config.plain import PlainDict


@dataclass(frozen=True)
class Choice:
    """One of several values, in no order."""

    values: tuple[Any, ...]

    def kept(self) -> list[Any]:
        """Return the values as Optuna keeps them: it takes scalars only, so lists become text."""
        is_text = any(isinstance(value, list | dict) for value in self.values)
        return [json.dumps(value) for value in self.values] if is_text else list(self.values)


Range = FloatDistribution | IntDistribution
"""Numbers between two bounds, both of which belong to it."""
Entry = Range | Choice
Params = PlainDict
"""Values by the dotted names of settings"""


def distribution(entry: Entry) -> Range | CategoricalDistribution:
    """Return an entry as Optuna's distribution."""
    return CategoricalDistribution(entry.kept()) if isinstance(entry, Choice) else entry


def count(entry: Entry) -> float:
    """Return the number of values, infinite for a range of real numbers."""
    if isinstance(entry, Choice):
        return len(entry.values)
    if isinstance(entry, IntDistribution):
        return (entry.high - entry.low) // entry.step + 1
    return math.inf


def ends(entry: Entry) -> list[Any]:
    """Return the values that a setting must allow for the entry to be allowed."""
    return list(entry.values) if isinstance(entry, Choice) else [entry.low, entry.high]


def points(entry: Range, number: int) -> list[float]:
    """Return values at equal distances, or ratios, without duplicates."""
    space = np.geomspace if entry.log else np.linspace
    inner = space(entry.low, entry.high, number)[1:-1].tolist()
    # The ends exactly, without rounding.
    return list(dict.fromkeys([entry.low, *(_nearest(entry, each) for each in inner), entry.high]))


def at(entry: Entry, fraction: float) -> Any:
    """Return the value below which a share `fraction` in [0, 1) of the entry lies."""
    if isinstance(entry, Choice):
        return entry.values[int(fraction * len(entry.values))]
    low, high = _bounds(entry)
    if entry.log:
        value = math.exp(math.log(low) + fraction * (math.log(high) - math.log(low)))
        return _nearest(entry, value)
    return _nearest(entry, low + fraction * (high - low))


def fraction_of(entry: Range, value: float) -> float:
    """Return the position of a value in a range, from 0 to 1: the inverse of `at`."""
    low, high = _bounds(entry)
    if entry.log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _nearest(entry: Range, value: float) -> float:
    """Return the value of a range that is nearest to a number."""
    if isinstance(entry, IntDistribution):
        value = entry.low + entry.step * math.floor((value - entry.low) / entry.step + 0.5)
    return min(max(value, entry.low), entry.high)


def _bounds(entry: Range) -> tuple[float, float]:
    """Return the bounds between which each integer has an equal share."""
    half = 0.5 * entry.step if isinstance(entry, IntDistribution) else 0.0
    return entry.low - half, entry.high + half
