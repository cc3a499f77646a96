"""The figure of optimizers, in the look of `metaevo.reports.plots`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metaevo.reports import plots

COLOURS = plots.BLUE, plots.INK, plots.ORANGE
"""Of the momenta, from the most negative to the most positive."""


class StepCurve(NamedTuple):
    """An optimizer's steps; both arrays are [points]."""

    gradient: np.ndarray
    """in units of its usual size"""
    step: np.ndarray
    """change of the parameter, in learning rates"""


def plot_steps(
    panels: Mapping[tuple[str, str], Mapping[float, Mapping[str, StepCurve]]],
    path: plots.PathLike,
) -> Path:
    """Draw steps against the gradient; returns `path`.

    Args:
        panels: panels by row and column, such as `("policy", "start")`. A panel holds the curves by
            name for every momentum; the first curve is solid and the second dashed.
        path: output path of the PNG.

    Raises:
        ValueError: if there are no curves.
    """
    if not panels:
        raise ValueError("no steps to plot")
    rows = list(dict.fromkeys(row for row, _ in panels))
    columns = list(dict.fromkeys(column for _, column in panels))
    figure = plots._figure(1.4 + 2.6 * len(rows), plots.NARROW)
    grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
    for (row, column), curves in panels.items():
        axes = grid[rows.index(row), columns.index(column)]
        last, first = row == rows[-1], column == columns[0]
        label = f"step of the {row}'s parameters" if first else ""
        plots._style(axes, "gradient" if last else "", label)
        if row == rows[0]:
            axes.set_title(f"{column} of training", fontsize=11, color=plots.INK)
        for colour, (momentum, by_name) in zip(COLOURS, curves.items(), strict=False):
            for style, (name, curve) in zip(("-", "--"), by_name.items(), strict=False):
                axes.plot(
                    curve.gradient,
                    curve.step,
                    style,
                    color=colour,
                    linewidth=1.8 if style == "-" else 1.1,
                    label=f"{name}, momentum {momentum:g}",
                )
        plots._cross(axes)
    plots._legend(figure, grid[0, 0])
    return plots._save(figure, path)
