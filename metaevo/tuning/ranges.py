"""Entries of a search space: Optuna's ranges, and choices between values of any type."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import FloatDistribution, IntDistribution

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


def count(entry: Entry) -> int | None:
    """Return the number of values; None if they are not countable."""
    if isinstance(entry, Choice):
        return len(entry.values)
    if isinstance(entry, IntDistribution):
        return (entry.high - entry.low) // entry.step + 1
    return None


def ends(entry: Entry) -> list[Any]:
    """Return the values that a setting must allow for the entry to be allowed."""
    return list(entry.values) if isinstance(entry, Choice) else [entry.low, entry.high]


def points(entry: Entry, number: int) -> list[Any]:
    """Return values at equal distances, or ratios, without duplicates; all values of a choice."""
    if isinstance(entry, Choice):
        return list(entry.values)
    space = np.geomspace if entry.log else np.linspace
    values = space(entry.low, entry.high, number).tolist()
    values[0], values[-1] = entry.low, entry.high  # exactly
    return list(dict.fromkeys(nearest(entry, value) for value in values))


def at(entry: Entry, fraction: float) -> Any:
    """Return the value below which a share `fraction` in [0, 1) of the entry lies."""
    if isinstance(entry, Choice):
        return entry.values[int(fraction * len(entry.values))]
    low, high = _bounds(entry)
    if entry.log:
        return nearest(entry, math.exp(math.log(low) + fraction * (math.log(high) - math.log(low))))
    return nearest(entry, low + fraction * (high - low))


def fraction_of(entry: Range, value: float) -> float:
    """Return the position of a value in a range, from 0 to 1: the inverse of `at`."""
    low, high = _bounds(entry)
    if entry.log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def nearest(entry: Range, value: float) -> float:
    """Return the value of a range that is nearest to a number."""
    if isinstance(entry, IntDistribution):
        value = entry.low + entry.step * math.floor((value - entry.low) / entry.step + 0.5)
    return min(max(value, entry.low), entry.high)


def to_plain(entry: Entry) -> PlainDict:
    """Return the rule of an entry in a YAML file."""
    if isinstance(entry, Choice):
        return {"choice": list(entry.values)}
    kind = "integer" if isinstance(entry, IntDistribution) else "uniform"
    step = {"step": entry.step} if entry.step not in (None, 1) else {}
    return {f"log_{kind}" if entry.log else kind: [entry.low, entry.high], **step}


def _bounds(entry: Range) -> tuple[float, float]:
    """Return the bounds between which each integer has an equal share."""
    half = 0.5 * entry.step if isinstance(entry, IntDistribution) else 0.0
    return entry.low - half, entry.high + half
