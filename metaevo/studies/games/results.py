"""Results of a game comparison: every contender against every opponent, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


def mean(values: np.ndarray) -> Estimate:
    """Return the mean of the finite values of an array [seeds]."""
    return Estimate(*(float(each[0]) for each in statistics.mean_curve(values[:, None])))


def interquartile_mean(values: np.ndarray) -> Estimate:
    """Return the interquartile mean of values [seeds]; missing ones count as the worst."""
    summary = statistics.summarise(statistics.fill_missing({0: values})[0])
    return Estimate(summary.iqm, *summary.interval)


Cell = Mapping[str, Estimate]
"""Estimates of one row of a table, by column or by measure."""


def estimates_table(
    title: str,
    corner: str,
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    note: str = "",
    digits: int = 2,
) -> Table:
    """Return a table of estimates, by row and column.

    Args:
        title: title of the table.
        corner: heading of the first column.
        rows: estimates by row and column; the first row has all columns.
        note: text below the table.
        digits: decimals of the numbers.
    """
    columns = list(next(iter(rows.values())))
    cells = [
        [name, *(estimate(*row[column], decimals=digits) for column in columns)]
        for name, row in rows.items()
    ]
    return Table(title, [corner, *columns], cells, note=note)


@dataclass(frozen=True)
class Scores:
    """Measures of every contender against every opponent.

    In cheap talk, a contender is a channel and an opponent is a victim.
    """

    opponents: Sequence[str]
    cells: Mapping[str, Sequence[Cell]]
    """by contender, a cell for each opponent with estimates by measure"""


@dataclass(frozen=True)
class ScoresFormat:
    """Representation of `Scores` in evaluation.json and in the report."""

    key: str
    """key of the scores in evaluation.json"""
    opponents: str
    """key of the list of opponents"""
    contenders: str
    """key of the cells by contender"""
    titles: Mapping[str, str]
    """titles of the tables by measure"""
    note: str
    """text below the first table"""
    corner: str = "opponent"
    """heading of the column with the opponents"""
    digits: int = 2
    """decimals of the numbers"""

    def to_plain(self, scores: Scores) -> PlainDict:
        """Return this part of evaluation.json."""
        contenders = {
            name: [{measure: list(cell[measure]) for measure in cell} for cell in cells]
            for name, cells in scores.cells.items()
        }
        return {self.key: {self.opponents: list(scores.opponents), self.contenders: contenders}}

    def read(self, result: PlainMapping) -> Scores | None:
        """Return the scores in the content of evaluation.json; None if it has none."""
        if self.key not in result:
            return None
        found = result[self.key]
        cells = {
            name: [{measure: Estimate(*cell[measure]) for measure in cell} for cell in cells]
            for name, cells in found[self.contenders].items()
        }
        return Scores(found[self.opponents], cells)

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return a table for each measure; rows are opponents, columns are contenders."""
        scores = self.read(result)
        if scores is None:
            return []
        tables: list[Table] = []
        for measure, title in self.titles.items():
            rows = {
                opponent: {name: cells[place][measure] for name, cells in scores.cells.items()}
                for place, opponent in enumerate(scores.opponents)
            }
            note = "" if tables else self.note
            tables.append(estimates_table(title, self.corner, rows, note=note, digits=self.digits))
        return tables


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
    """the study's own parts of evaluation.json, such as `ScoresFormat.to_plain`"""
    variants: Mapping[str, tuple[Mapping[str, float], int]] = field(default_factory=dict)
    """tuned settings, and frames of tuning, of contenders that have any"""
    diverged: Mapping[str, int] | None = None
    """by contender; by default the number of its scores that are not finite"""

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
            "budget": self.budget,
            "frames_per_agent": self.frames_per_agent,
            "evolution_frames": evolution_frames,
        }
        return cast(HeldOut, {**result, **self.more})
