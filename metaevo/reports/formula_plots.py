"""The figures of formulas and programs: their scores against their lengths."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from metaevo.config.plain import PlainMapping
from metaevo.reports import plots
from metaevo.statistics import Estimate

NUMBER = re.compile(r"\d+\.\d+(e-?\d+)?")
LETTERS = 46
"""in a line of a program beside the front"""
FEW = 4
"""Points of programs that were trained in fewer generations are hollow."""


class Scored(NamedTuple):
    """A function with its score."""

    name: str
    length: int
    """of the function as a formula"""
    score: Estimate


def plot_formulas(
    formulas: Sequence[Scored],
    hand_written: Sequence[Scored],
    learned: Estimate,
    path: plots.PathLike,
    *,
    numbers: int,
    ylabel: str,
) -> Path:
    """Draw the score of every formula over its length, and the learned part at the right end.

    Args:
        formulas: of what was learned.
        hand_written: functions.
        learned: score of the learned part.
        path: output path of the PNG.
        numbers: number of meta-parameters of the learned part.
        ylabel: name of the score.
    """
    figure = plots.new_figure(4.6)
    axes = plots.style_axes(figure.subplots(), "length of the formula", ylabel)
    lengths = [each.length for each in [*formulas, *hand_written]]
    end = round(max(lengths, default=1) * 1.12) + 3
    axes.axhspan(*learned.interval, color=plots.LEARNED, alpha=0.12, linewidth=0, zorder=0)
    groups = (
        ("formulas of what was learned", plots.LEARNED, "o", "white", formulas),
        ("hand-written", plots.BLUE, "s", plots.BLUE, hand_written),
        ("learned", plots.LEARNED, "D", plots.LEARNED, [Scored("learned", end, learned)]),
    )
    for label, color, marker, face, rows in groups:
        if not rows:
            continue
        for row in rows:
            x, ends = [row.length] * 2, row.score.interval
            axes.plot(x, ends, color=color, linewidth=2.5, solid_capstyle="round")
        axes.plot(
            [row.length for row in rows],
            [row.score.value for row in rows],
            marker,
            color=color,
            markersize=8,
            markeredgewidth=2,
            markerfacecolor=face,
            label=label,
        )
    for row in hand_written:
        axes.annotate(
            plots.plain_text(row.name),
            (row.length, row.score.value),
            textcoords="offset points",
            xytext=(3, 7),
            rotation=35,  # short formulas lie close to each other
            fontsize=9,
            color=plots.BLUE,
        )
    ticks = sorted(set(lengths))
    kept = [each for i, each in enumerate(ticks) if not i or each - ticks[i - 1] >= 1]
    axes.set_xticks([*kept, end], [*map(str, kept), f"{numbers:,}\nnumbers"])
    axes.margins(x=0.05)
    plots.add_legend(figure, axes)
    return plots.save_figure(figure, path)


def plot_front(rows: Sequence[PlainMapping], path: plots.PathLike) -> Path:
    """Draw the front of score against length beside its programs; return the path.

    Args:
        rows: with length and score, ascending in both; optionally program and generations.
        path: output path of the PNG.
    """
    figure = plots.new_figure(5.2)
    axes = plots.style_axes(figure.subplots(), "length of the program", "score on search seeds")
    length, score = ([row[key] for row in rows] for key in ("length", "score"))
    color = plots.LEARNED
    axes.step(length, score, where="post", color=color, linewidth=1.8, zorder=2)
    for index, row in enumerate(reversed(rows)):
        face = color if row.get("generations", FEW) >= FEW else "white"
        axes.plot(row["length"], row["score"], "o", color=color, markerfacecolor=face,
                  markersize=8, markeredgewidth=2, zorder=3)  # fmt: skip
        text = NUMBER.sub(lambda found: f"{float(found[0]):.2g}", str(row.get("program", "")))
        lines = textwrap.wrap(text, LETTERS, max_lines=2, placeholder=" ...")
        axes.text(
            1.02,
            1.0 - index / max(8, len(rows)),
            plots.plain_text(f"{row['length']:3}  " + "\n     ".join(lines)),
            transform=axes.transAxes,
            verticalalignment="top",
            family="monospace",
            fontsize=8,
            color=plots.INK,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.03, y=0.05)
    return plots.save_figure(figure, path)
