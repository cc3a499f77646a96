"""The figure of schedules, in the look of `metaevo.reports.plots`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from metaevo.reports import plots


def plot_schedules(panels: Mapping[str, Mapping[str, ArrayLike]], path: plots.PathLike) -> Path:
    """Draw hyperparameters over training, one panel each; returns `path`.

    Args:
        panels: curves by name for each hyperparameter, [points] from the start of training to the
            end.
        path: output path of the PNG.

    Raises:
        ValueError: if there are no curves.
    """
    if not panels or not all(panels.values()):
        raise ValueError("no schedules to plot")
    rows = -(-len(panels) // 2)
    figure = plots._figure(0.8 + 2.5 * rows, plots.NARROW)
    grid = figure.subplots(rows, min(2, len(panels)), sharex=True, squeeze=False)
    for axes, (hyperparam, curves) in zip(grid.flat, panels.items(), strict=False):
        plots._style(axes, "share of training done", hyperparam)
        done = {name: np.linspace(0, 1, np.size(curve)) for name, curve in curves.items()}
        plots._draw_curves(axes, {name: (done[name], curve) for name, curve in curves.items()})
        low, high = axes.get_ylim()
        if low < high / 2:
            axes.set_ylim(bottom=0)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    plots._legend(figure, grid[0, 0])
    return plots._save(figure, path)
