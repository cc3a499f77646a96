"""The figures of policy losses, optimizers and schedules."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.reports import plots

COLOURS = plots.BLUE, plots.INK, plots.ORANGE
"""Of the momenta, from the most negative to the most positive."""


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
    """Draw drifts (above) and derivatives of objectives (below) against the ratio; return the path.

    `panels` has the curves by name for each advantage, which is a column of the figure.
    """
    figure = plots.new_figure(6.2, plots.NARROW)
    grid = figure.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
    for column, (advantage, curves) in enumerate(panels.items()):
        drift_axes, slope_axes = grid[:, column]
        first = column == 0
        plots.style_axes(drift_axes, "", "drift" if first else "")
        plots.style_axes(
            slope_axes, "ratio: new / old probability", "∂ objective / ∂ ratio" if first else ""
        )
        drift_axes.set_title(f"advantage {advantage:+g}", fontsize=11, color=plots.INK)
        plots.draw_curves(drift_axes, {name: (c.ratio, c.drift) for name, c in curves.items()})
        plots.draw_curves(slope_axes, {name: (c.ratio, c.derivative) for name, c in curves.items()})
        for axes in (drift_axes, slope_axes):
            plots.draw_cross(axes, 1.0)
            axes.margins(x=0)
    plots.add_legend(figure, grid[0, 0])
    return plots.save_figure(figure, path)


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
    """Draw steps against the gradient; return the path.

    `panels` has a panel for each row and column, such as `("policy", "start")`, with the curves by
    name for every momentum; the first curve is solid and the second dashed.
    """
    rows = list(dict.fromkeys(row for row, _ in panels))
    columns = list(dict.fromkeys(column for _, column in panels))
    figure = plots.new_figure(1.4 + 2.6 * len(rows), plots.NARROW)
    grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
    for (row, column), curves in panels.items():
        axes = grid[rows.index(row), columns.index(column)]
        last, first = row == rows[-1], column == columns[0]
        label = f"step of the {row}'s parameters" if first else ""
        plots.style_axes(axes, "gradient" if last else "", label)
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
        plots.draw_cross(axes)
    plots.add_legend(figure, grid[0, 0])
    return plots.save_figure(figure, path)


def plot_schedules(panels: Mapping[str, Mapping[str, ArrayLike]], path: plots.PathLike) -> Path:
    """Draw the curves [points] of each hyperparameter over training in a panel; return the path."""
    figure, grid = plots.new_panels(len(panels), 2.5, plots.NARROW, sharex=True)
    for axes, (hyperparam, curves) in zip(grid, panels.items(), strict=True):
        plots.style_axes(axes, "share of training done", hyperparam)
        done = {name: np.linspace(0, 1, np.size(curve)) for name, curve in curves.items()}
        plots.draw_curves(axes, {name: (done[name], curve) for name, curve in curves.items()})
        low, high = axes.get_ylim()
        if low < high / 2:
            axes.set_ylim(bottom=0)
    plots.add_legend(figure, grid[0])
    return plots.save_figure(figure, path)
