"""The rules entered into the benchmark: their rows, and a table of all rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NotRequired

from annotated_types import Len
from typing_extensions import TypedDict

from metaevo.comparison.generality.result import interval_of
from metaevo.config import files
from metaevo.config.checks import Index, Measure, Number, Text
from metaevo.config.plain import PlainMapping
from metaevo.reports import page
from metaevo.runs.schema import Interval

NOTE = (
    "Scores: 0 is random play, 1 is tuned PPO. They leave out tasks that the rule was evolved on "
    "or cannot be trained on. All rules are measured with the same random keys, and a lead of up "
    "to 0.1 can be due to chance. added: score on the tasks of later versions; tuned: score with "
    "all hyperparameters tuned instead of only the learning rate."
)
FOLDER = Path(__file__).parent / "rows"
"""Folder with one file per rule: the result.json written by the command."""


class Part(TypedDict):
    """The score over some of the tasks."""

    iqm: Number
    interval: Interval
    tasks: Index
    """their number"""


class TaskRow(TypedDict):
    """The result on a task."""

    learning_rate: Number
    others: NotRequired[dict[str, Number]]
    """other hyperparameters that tuning has chosen"""
    scores: Annotated[list[Measure], Len(2)]


class Tuned(Part):
    """The score with all hyperparameters tuned."""

    by_task: dict[str, TaskRow]


class Row(TypedDict):
    """result.json: the keys that are read; see `metaevo.comparison.generality.result.result`."""

    version: Index
    rule: Text
    slot: Text
    key: Text
    learning_rates: Annotated[list[Number], Len(1)]
    seeds: Index
    seen: list[Text]
    score: Part
    added: NotRequired[Part | None]
    tuned: NotRequired[Tuned]
    families: dict[str, Part | None]
    horizons: dict[str, Part | None]
    tasks: dict[str, TaskRow]


def entered() -> list[Row]:
    """Return the rows of all rules that were entered, the highest score first."""
    rows: list[Row] = [files.read_json(path, Row) for path in FOLDER.glob("*.json")]
    return sorted(rows, key=lambda row: (-row["score"]["iqm"], row["rule"]))


def row_of(rule: str) -> Row | None:
    """Return the row of a rule, if it was entered.

    Args:
        rule: name of the rule as in the rows: `adam`, `zoo:NAME`.
    """
    return next((row for row in entered() if row["rule"] == rule), None)


def parts_of(row: PlainMapping) -> dict[str, str]:
    """Return a row's scores by families and horizons of tasks, of added tasks, and all tuned."""
    parts = {**row["families"], **row["horizons"]}
    parts |= {name: row.get(name) for name in ("added", "tuned")}
    return {name: "" if part is None else f"{part['iqm']:.2f}" for name, part in parts.items()}


def table(rows: Iterable[PlainMapping]) -> page.Table:
    """Return rows as a table."""
    columns, cells = ["rule", "score [95%]", "tasks"], []
    for row in rows:
        parts = parts_of(row)
        columns[3:] = parts
        score = row["score"]
        cells.append([row["rule"], interval_of(score), str(score["tasks"]), *parts.values()])
    return page.Table("", columns, cells, note=NOTE)
