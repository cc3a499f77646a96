"""Figures of results that are no functions of a learner: numbers, and the front of programs."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metaevo.config.plain import PlainMapping
from metaevo.reports.plots import (
    GREY,
    INK,
    LEARNED,
    PathLike,
    new_figure,
    plain_text,
    save_figure,
    style_axes,
)

FEW = 4
"""Programs that were trained in fewer generations have hollow points."""
MOST_LABELS = 16
"""Names below bars, at most."""


def plot_numbers(numbers: Mapping[str, float], path: PathLike) -> Path:
    """Draw evolved numbers as bars, with at most `MOST_LABELS` names; return the path."""
    figure = new_figure(4.0)
    axes = style_axes(figure.subplots(), "", "value")
    places = np.arange(len(numbers))
    axes.bar(places, list(numbers.values()), color=LEARNED, width=0.7)
    axes.axhline(0, color=GREY, linewidth=0.8)
    step = -(-len(numbers) // MOST_LABELS)
    names = [plain_text(name) for name in numbers][::step]
    tilt = 0 if sum(map(len, names)) < 60 else 40
    axes.set_xticks(places[::step], names, rotation=tilt, ha="right" if tilt else "center")
    return save_figure(figure, path)


def plot_front(rows: Sequence[PlainMapping], path: PathLike) -> Path:
    """Draw the front of score against length beside its programs; return the path.

    Args:
        rows: with length and score, ascending in both; optionally program and generations.
        path: output path of the PNG.
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
    return save_figure(figure, path)
