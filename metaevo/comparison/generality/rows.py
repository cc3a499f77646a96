"""The rules entered into the benchmark: their rows, and a table of all rows."""

from collections.abc import Iterable
from pathlib import Path

from metaevo.comparison.generality.result import interval_of
from metaevo.config import files
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports import page

NOTE = "All rules have the same random keys, and a lead of a tenth can be due to them."
FOLDER = Path(__file__).parent / "rows"
"""Folder with one file per rule: the result.json written by the command."""


def entered() -> list[PlainDict]:
    """Return the rows of all rules that were entered, the highest score first."""
    rows = [files.read_json(path) for path in FOLDER.glob("*.json")]
    return sorted(rows, key=lambda row: (-row["score"]["iqm"], row["rule"]))


def row_of(rule: str) -> PlainDict | None:
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
