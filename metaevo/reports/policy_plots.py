"""The figure of policy losses, in the look of `metaevo.reports.plots`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from numpy.typing import ArrayLike

from metaevo.reports import plots


class PolicyCurve(NamedTuple):
    """A policy loss on a grid of ratios, at one advantage; all arrays are [points]."""

    ratio: ArrayLike
    """new over old probability of an action"""
    drift: ArrayLike
    """ratio * advantage minus the objective"""
    derivative: ArrayLike
    """of the objective (the loss negated) with respect to the ratio"""


def plot_policy_losses(
    panels: Mapping[float, Mapping[str, PolicyCurve]],
    path: plots.PathLike,
) -> Path:
    """Draw drifts (above) and derivatives of objectives (below) against the ratio; returns `path`.

    Args:
        panels: for each advantage, a column of the figure, the curves by name.
        path: output path of the PNG.

    Raises:
        ValueError: no curves.
    """
    if not panels or not all(panels.values()):
        raise ValueError("no policy losses to plot")
    figure = plots._figure(6.2, plots.NARROW)
    grid = figure.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
    for column, (advantage, curves) in enumerate(panels.items()):
        drift_axes, slope_axes = grid[:, column]
        first = column == 0
        plots._style(drift_axes, "", "drift" if first else "")
        plots._style(
            slope_axes, "ratio: new / old probability", "∂ objective / ∂ ratio" if first else ""
        )
        drift_axes.set_title(f"advantage {advantage:+g}", fontsize=11, color=plots.INK)
        plots._draw_curves(drift_axes, {name: (c.ratio, c.drift) for name, c in curves.items()})
        plots._draw_curves(
            slope_axes, {name: (c.ratio, c.derivative) for name, c in curves.items()}
        )
        for axes in (drift_axes, slope_axes):
            plots._cross(axes, 1.0)
            axes.margins(x=0)
    plots._legend(figure, grid[0, 0])
    return plots._save(figure, path)
