"""The figure of programs: their scores against their lengths."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import MaxNLocator

from metaevo.config.plain import PlainMapping
from metaevo.reports import plots

NUMBER = re.compile(r"\d+\.\d+(e-?\d+)?")
LETTERS = 46
"""in a line of a program beside the front"""
FEW = 4
"""Points of programs that were trained in fewer generations are hollow."""


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
