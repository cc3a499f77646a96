"""Results of a game comparison: every contender against every opponent, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np

from metaevo import statistics
from metaevo.comparison import comparison
from metaevo.comparison.comparison import Variant
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports.numbers import estimate
from metaevo.reports.page import Table
from metaevo.runs.schema import HeldOut


class Estimate(NamedTuple):
    """An average over seeds and its 95% interval."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """Return a cell of a table: "0.31 [0.28, 0.35]" ."""
        return estimate(*self, decimals=digits)


def mean(values: np.ndarray) -> Estimate:
    """Return the mean of the finite values of an array [seeds]."""
    return Estimate(*(float(each[0]) for each in statistics.mean_curve(values[:, None])))


def interquartile_mean(values: np.ndarray) -> Estimate:
    """Return the interquartile mean of values [seeds]; missing ones count as the worst."""
    summary = statistics.summarise(statistics.fill_missing({0: values})[0])
    return Estimate(summary.iqm, *summary.interval)


Cell = Mapping[str, Estimate]
"""Measures of one contender against one opponent."""


@dataclass(frozen=True)
class Meetings:
    """Every contender against every opponent; a contender is also a channel, an opponent a victim.

    `keys` are its names in evaluation.json: of the table, its opponents and its contenders.
    """

    opponents: Sequence[str]
    cells: Mapping[str, Sequence[Cell]]
    """by contender: a cell for each opponent"""

    def to_plain(self, keys: tuple[str, str, str]) -> PlainDict:
        """Return this table's part of evaluation.json."""
        table, opponents, contenders = keys
        plain = {
            name: [{each: list(cell[each]) for each in cell} for cell in row]
            for name, row in self.cells.items()
        }
        return {table: {opponents: list(self.opponents), contenders: plain}}

    @classmethod
    def from_plain(cls, result: PlainMapping, keys: tuple[str, str, str]) -> "Meetings | None":
        """Read this table's part of evaluation.json; None if it is missing."""
        table, opponents, contenders = keys
        if table not in result:
            return None
        found = result[table]
        return cls(
            found[opponents],
            {
                name: [{each: Estimate(*cell[each]) for each in cell} for cell in row]
                for name, row in found[contenders].items()
            },
        )

    def table(
        self, title: str, measure: str, *, corner: str = "opponent", note: str = "", digits: int = 2
    ) -> Table:
        """Return one measure as a table: a row for each opponent, a column for each contender."""
        rows = [
            [name, *(row[place][measure].text(digits) for row in self.cells.values())]
            for place, name in enumerate(self.opponents)
        ]
        return Table(title, [corner, *self.cells], rows, note=note)


@dataclass(frozen=True)
class GameResult:
    """Comparison at the end of a game evolution."""

    scores: Mapping[str, np.ndarray]
    """by contender, [seeds] or [seeds, opponents]: deciding scores; NaN where training diverged"""
    learned: Sequence[str]
    """the contenders that were evolved, which come first"""
    budget: str
    """how hand-written contenders were tuned, a sentence"""
    frames_per_agent: int
    more: PlainMapping
    """the study's own parts of evaluation.json, such as `Meetings.to_plain`"""
    variants: Mapping[str, tuple[Mapping[str, float], int]] = field(default_factory=dict)
    """tuned settings, and frames of tuning, of contenders that have any"""
    diverged: Mapping[str, int] | None = None
    """by contender; by default the number of its scores that are not finite"""

    def with_more(self, more: PlainMapping) -> "GameResult":
        """Return the result with more parts of evaluation.json."""
        return replace(self, more={**self.more, **more})

    def to_plain(self, evolution_frames: int) -> HeldOut:
        """Return the content of evaluation.json."""
        scores = {name: np.asarray(each, np.float64) for name, each in self.scores.items()}
        scores = {name: x if x.ndim > 1 else x[:, None] for name, x in scores.items()}
        diverged = self.diverged or {
            name: int(np.sum(~np.isfinite(each))) for name, each in scores.items()
        }
        variants = []
        for name in scores:
            settings, frames = self.variants.get(name, ({}, 0))
            variants.append(Variant(name, name, dict(settings), frames))
        result: HeldOut = {
            **comparison.summary(
                variants, statistics.fill_missing(scores), diverged, list(self.learned)
            ),
            **comparison.UNTUNED,
            "budget": self.budget,
            "frames_per_agent": self.frames_per_agent,
            "evolution_frames": evolution_frames,
        }
        return cast(HeldOut, {**result, **self.more})
