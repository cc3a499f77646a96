"""The leaderboard as HTML: rows by score, with filters by slot and by family of tasks.

The filters are radio buttons that CSS reads, so the page needs no script and no server. A browser
without `:has` shows everything.
"""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from metaevo.comparison.generality import cost
from metaevo.comparison.generality.result import interval_of
from metaevo.comparison.generality.rows import parts_of
from metaevo.comparison.generality.rules import WHOLE
from metaevo.comparison.generality.tasks import FAMILIES, HORIZONS
from metaevo.config.plain import PlainMapping
from purerl.learners import HAND_WRITTEN

ALL = "all"
RANGE = -0.25, 1.75
"""Range of the scores in the pictures."""
WIDTH, HEIGHT = 160, 14
"""of a picture"""


def html(rows: Sequence[PlainMapping]) -> str:
    """Return a table of rows for all tasks, and one for each family, of which one is shown."""
    slots = list(dict.fromkeys(row["slot"] for row in sorted(rows, key=lambda row: row["slot"])))
    views = [ALL, *FAMILIES]
    return "\n".join(
        [
            '<div class="board">',
            _style(slots, views),
            _choice("slot", [ALL, *slots]),
            _choice("tasks", views),
            *(_table(rows, view) for view in views),
            "</div>",
        ]
    )


def part_of(row: PlainMapping, view: str) -> PlainMapping | None:
    """Return a row's score over all tasks or over a family, without the tasks it has seen."""
    part: PlainMapping | None = row["score"] if view == ALL else row["families"][view]
    return part


def _style(slots: Iterable[str], views: Iterable[str]) -> str:
    """Return CSS that hides rows outside the selection."""
    hidden = [
        f'.board:has(#board-slot-{slot}:checked) tr[data-slot]:not([data-slot="{slot}"])'
        for slot in slots
    ] + [
        f'.board:has(#board-tasks-{view}:checked) .board-view:not([data-view="{view}"])'
        for view in views
    ]
    return f"<style>{', '.join(hidden)} {{ display: none; }}</style>"


def _choice(name: str, values: Sequence[str]) -> str:
    """Return radio buttons, the first of which is chosen."""
    buttons = "".join(
        f'<label><input type="radio" name="board-{name}" id="board-{name}-{value}"'
        f"{' checked' if value == values[0] else ''}> {escape(value)}</label> "
        for value in values
    )
    return f"<p>{name}: {buttons}</p>"


def _table(rows: Iterable[PlainMapping], view: str) -> str:
    """Return the rows with a score in a view, the highest first."""
    parts = [(row, part) for row in rows if (part := part_of(row, view)) is not None]
    parts.sort(key=lambda each: (-each[1]["iqm"], each[0]["rule"]))
    columns = ["rule", "slot", "score [95%]", "", "tasks"]
    columns += [*HORIZONS, "added", "all tuned", "CPU"] if view == ALL else []
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(_row(row, part, view) for row, part in parts)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="board-view" data-view="{view}">{table}</div>'


def _row(row: PlainMapping, part: PlainMapping, view: str) -> str:
    cells = [
        f"<code>{escape(row['rule'])}</code>",
        escape(row["slot"]),
        f"<strong>{interval_of(part)}</strong>",
        _picture(part, is_learned=_is_learned(row)),
        str(part["tasks"]),
    ]
    if view == ALL:
        parts = parts_of(row)
        cells += [parts[name] for name in (*HORIZONS, "added")]
        cells.append(interval_of(row["tuned"]) if "tuned" in row else "")
        cells.append(cost.text(row.get("cost")))
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr data-slot="{escape(row["slot"])}">{inner}</tr>'


def _picture(part: PlainMapping, *, is_learned: bool) -> str:
    """Return a score and its interval on a scale with lines at random play and tuned PPO."""

    def x(value: float) -> float:
        low, high = RANGE
        return round(WIDTH * (float(np.clip(value, *RANGE)) - low) / (high - low), 1)

    kind, middle = "learned" if is_learned else "written", HEIGHT // 2
    low, high = part["interval"]
    lines = "".join(f'<path class="grid" d="M{x(value)} 0V{HEIGHT}"/>' for value in (0, 1))
    return (
        f'<svg class="scores" width="{WIDTH}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{lines}'
        f'<path class="{kind}" d="M{x(low)} {middle}H{x(high)}" stroke-width="3"/>'
        f'<circle class="{kind}" cx="{x(part["iqm"])}" cy="{middle}" r="4"/></svg>'
    )


def _is_learned(row: PlainMapping) -> bool:
    """Whether a rule was evolved: of the learners Disco103, and all but hand-written functions."""
    if row["slot"] == WHOLE:
        return row["rule"] == "disco"
    return row["rule"] not in HAND_WRITTEN.get(row["slot"], {})
