"""The figures of the comparisons, in the style of all others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.ticker import EngFormatter
from numpy.typing import ArrayLike

from metaevo.reports.plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    _figure,
    _legend,
    _save,
    _style,
)
from metaevo.statistics import mean_curve

COLORS = (GREY, BLUE, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.2, 1.2)))


def _look(index: int) -> dict[str, Any]:
    dash = DASHES[index // len(COLORS) % len(DASHES)]
    return {"color": COLORS[index % len(COLORS)], "linestyle": dash, "linewidth": 1.8}


def plot_lines(
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    path: Path,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log: Literal["both", "x", ""] = "",
) -> Path:
    """Draw named lines (x, y) with a marker at every point; returns the path."""
    figure = _figure(4.6, title=title)
    axes = _style(figure.subplots(), xlabel, ylabel)
    for index, (name, (x, y)) in enumerate(lines.items()):
        axes.plot(np.asarray(x), np.asarray(y), marker="o", label=name, **_look(index))
    if log:
        axes.set_xscale("log")
    if log == "both":
        axes.set_yscale("log")
    _legend(figure, axes)
    return _save(figure, path)


class Curve(NamedTuple):
    """A learning curve of several seeds."""

    x: ArrayLike
    """[points], environment steps or episodes of one agent"""
    returns: ArrayLike
    """[seeds, points], NaN where no episode finished"""
    seconds: ArrayLike | None = None
    """[points], since the start"""


def plot_curves(
    curves: Mapping[str, Curve],
    path: Path,
    *,
    title: str,
    xlabel: str = "environment steps of an agent",
    ylabel: str = "return of finished episodes",
) -> Path:
    """Draw means over seeds with 95% intervals against x, and against the clock if it is known.

    Returns:
        the path.
    """
    timed = any(curve.seconds is not None for curve in curves.values())
    figure = _figure(4.8, title=title)
    panels = np.atleast_1d(figure.subplots(1, 1 + timed, sharey=True))
    _style(panels[0], xlabel, ylabel)
    panels[0].xaxis.set_major_formatter(EngFormatter(sep=""))
    if timed:
        _style(panels[1], "seconds of all agents together (log)", "")
        panels[1].set_xscale("log")
    for index, (name, curve) in enumerate(curves.items()):
        mean, low, high = mean_curve(curve.returns)
        for axes, x in zip(panels, (curve.x, curve.seconds), strict=False):
            if x is None:
                continue
            look = _look(index)
            axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
            marker = "o" if np.isfinite(mean).sum() == 1 else ""
            axes.plot(x, mean, label=name, marker=marker, **look)
    _legend(figure, *panels)
    return _save(figure, path)
