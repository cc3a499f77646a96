"""Learning curves of the comparisons, in the style of all other figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import EngFormatter
from numpy.typing import ArrayLike

from metaevo.reports import plots

COLORS = (plots.GREY, plots.BLUE, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY)


class Curve(NamedTuple):
    """A learning curve of several seeds."""

    x: ArrayLike
    """[points], environment steps or episodes of one agent"""
    returns: ArrayLike
    """[seeds, points], NaN if no episode finished"""
    seconds: ArrayLike | None = None
    """[points] seconds since the start"""


def plot_curves(
    curves: Mapping[str, Curve],
    path: Path,
    *,
    title: str,
    xlabel: str = "environment steps of an agent",
    ylabel: str = "return of finished episodes",
) -> None:
    """Draw means over seeds with 95% intervals against x, and against time if it is known."""
    timed = any(curve.seconds is not None for curve in curves.values())
    figure = plots.new_figure(4.8, title=title)
    panels = np.atleast_1d(figure.subplots(1, 1 + timed, sharey=True))
    plots.style_axes(panels[0], xlabel, ylabel)
    panels[0].xaxis.set_major_formatter(EngFormatter(sep=""))
    if timed:
        plots.style_axes(panels[1], "seconds of all agents together (log)", "").set_xscale("log")
    for index, (name, curve) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        dash = "solid" if index < len(COLORS) else "dashed"
        for axes, x in zip(panels, (curve.x, curve.seconds), strict=False):
            if x is not None:
                plots.draw_mean(axes, x, curve.returns, name, color=color, linestyle=dash)
    plots.add_legend(figure, *panels)
    plots.save_figure(figure, path)
