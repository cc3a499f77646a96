"""The rules on record: their scores on every task, and a table of all of them."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NotRequired

from annotated_types import Len
from typing_extensions import TypedDict

from metaevo.comparison.generality.result import interval_of, normalised, pooled
from metaevo.comparison.generality.tasks import benchmark, read_references
from metaevo.config import files
from metaevo.config.checks import Index, Measure, Number, Text
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports import page

NOTE = (
    "Scores: 0 is random play, 1 is tuned PPO. They leave out tasks that the rule was evolved on "
    "or cannot be trained on. All rules are measured with the same random keys, and a lead of up "
    "to 0.1 can be due to chance. added: score on the tasks of later versions."
)
FILE = Path(__file__).with_name("rows.json")


class TaskScores(TypedDict):
    """The scores on a task."""

    learning_rate: Number
    """tuned"""
    scores: Annotated[list[Measure], Len(2)]
    """[seeds] of the agents; null where one diverged"""


class Row(TypedDict):
    """A rule and its scores by task."""

    slot: Text
    key: Text
    """digest of the rule, see `metaevo.comparison.generality.rules.Rule`"""
    version: Index
    """of the list of tasks"""
    seeds: Index
    seen: list[Text]
    unable: list[Text]
    weights: NotRequired[PlainDict]
    """where a published rule comes from"""
    commit: Text
    tasks: dict[str, TaskScores]


def recorded() -> dict[str, Row]:
    """Return the rows of all rules on record by the names of the rules."""
    rows: dict[str, Row] = files.read_json(FILE, dict[str, Row])
    return rows


def scored() -> list[PlainDict]:
    """Return all rows with `rule` and the scores of `result.pooled`, the highest score first."""
    found, ends = benchmark(), read_references()["tasks"]
    rows = [
        {"rule": rule, **row, **pooled(found, normalised(row["tasks"], ends), row["seen"])}
        for rule, row in recorded().items()
    ]
    return sorted(rows, key=lambda row: (-row["score"]["iqm"], row["rule"]))


def line_of(content: PlainMapping) -> str:
    """Return a row as a line of the file, from the content of result.json."""
    row = {name: content[name] for name in Row.__annotations__ if name in content}
    row["tasks"] = {
        name: {"learning_rate": each["learning_rate"], "scores": [*map(_rounded, each["scores"])]}
        for name, each in content["tasks"].items()
    }
    return f"{json.dumps(content['rule'])}: {json.dumps(row)}"


def _rounded(score: float | None) -> float | None:
    return None if score is None or not math.isfinite(score) else float(f"{score:.6g}")


def table(rows: Iterable[PlainMapping]) -> page.Table:
    """Return rows with scores as a table."""
    columns, cells = ["rule", "score [95%]", "tasks"], []
    for row in rows:
        parts = {**row["families"], **row["horizons"], "added": row["added"]}
        columns[3:] = parts
        numbers = ["" if part is None else f"{part['iqm']:.2f}" for part in parts.values()]
        score = row["score"]
        cells.append([row["rule"], interval_of(score), str(score["tasks"]), *numbers])
    return page.Table("", columns, cells, note=NOTE)
