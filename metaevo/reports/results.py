"""Figures of results that are no functions: numbers, a front of programs, a table of values."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from metaevo.config.plain import PlainMapping
from metaevo.reports.plots import GREY, INK, LEARNED, new_figure, plain_text, style_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""Programs that were trained in fewer generations have hollow points."""
MOST_LABELS = 16
"""Names below bars, at most."""


def draw_numbers(numbers: Mapping[str, float]) -> "Figure":
    """Draw evolved numbers as bars, with at most `MOST_LABELS` names."""
    figure = new_figure(4.0)
    axes = style_axes(figure.subplots(), "", "value")
    places = np.arange(len(numbers))
    axes.bar(places, list(numbers.values()), color=LEARNED, width=0.7)
    axes.axhline(0, color=GREY, linewidth=0.8)
    step = -(-len(numbers) // MOST_LABELS)
    names = [plain_text(name) for name in numbers][::step]
    tilt = 0 if sum(map(len, names)) < 60 else 40
    axes.set_xticks(places[::step], names, rotation=tilt, ha="right" if tilt else "center")
    return figure


def draw_front(rows: Sequence[PlainMapping]) -> "Figure":
    """Draw the front of score against length next to its programs.

    Args:
        rows: with length and score, ascending in both; optionally program and generations.
    """
    figure = new_figure(5.2, 9.0)
    axes = style_axes(figure.subplots(), "length of the program", "score on search seeds")
    length, score = ([row[key] for row in rows] for key in ("length", "score"))
    hollow = [row.get("generations", FEW) < FEW for row in rows]
    axes.step(length, score, where="post", color=LEARNED, linewidth=1.8, zorder=2)
    axes.scatter(length, score, s=64, edgecolors=LEARNED, linewidths=2, zorder=3,
                 c=["white" if each else LEARNED for each in hollow])  # fmt: skip
    for index, row in enumerate(reversed(rows)):
        text = re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.2g}",
                      str(row.get("program", "")))  # fmt: skip
        lines = textwrap.wrap(text, 46, max_lines=2, placeholder=" ...")
        shown = plain_text(f"{row['length']:3}  " + "\n     ".join(lines))
        place = 1.02, 1.0 - index / max(8, len(rows))
        axes.text(*place, shown, transform=axes.transAxes, verticalalignment="top",
                  family="monospace", fontsize=8, color=INK)  # fmt: skip
    axes.locator_params(axis="x", integer=True)
    return figure


def draw_values(
    q: np.ndarray, visits: np.ndarray, shape: tuple[int, int], moves: Sequence[tuple[int, int]]
) -> "Figure":
    """Draw max Q of every cell of a grid with its greedy actions as arrows, and the visits.

    Args:
        q: [cells, actions] action values.
        visits: [cells, actions] number of times each action was taken; cells without visits (walls,
            unreachable ones) stay blank.
        shape: rows and columns.
        moves: change of (row, column) by each action.
    """
    figure = new_figure(4.6 if shape[0] <= 1.3 * shape[1] else 6.0, 9.0)
    panels, counts = figure.subplots(1, 2), visits.sum(axis=1)
    best = q.max(axis=1, keepdims=True)
    shown = {"highest action value, greedy actions": best[:, 0],
             "visits, log10": np.log10(np.maximum(counts, 1))}  # fmt: skip
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        axes.set_facecolor("#E8E8E8")
        image = axes.imshow(np.where(counts > 0, values, np.nan).reshape(shape), cmap="viridis")
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=11, color=INK)
        figure.colorbar(image, ax=axes, shrink=0.8).outline.set_visible(False)
    greedy = np.isclose(q, best, rtol=1e-6, atol=0.0)
    greedy &= (counts > 0)[:, None] & ~greedy.all(axis=1, keepdims=True)  # untrained: no preference
    cells, actions = np.nonzero(greedy)
    rows, columns = np.divmod(cells, shape[1])
    down, right = 0.42 * np.array(moves).T[:, actions]
    units = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.007}
    panels[0].quiver(columns, rows, right, down, color="white", **units)
    return figure
