"""The figures of a sweep, drawn by Optuna: history, importance, slice, contour, parallel axes."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import optuna

from metaevo.plots import DPI, WIDTH
from metaevo.sweep.study import Record

CAPTIONS = {
    "optimisation_history.png": "The objective of every trial that ran to its end, and the best of "
    "them so far: the best of many noisy trials is always too good.",
    "parameter_importance.png": "How much of the objective's variance each setting explains "
    "(fANOVA, Hutter et al. 2014).",
    "slice.png": "The objective against each setting alone.",
    "contour.png": "The objective over pairs of the most important settings.",
    "parallel_coordinate.png": "Every trial as a line through its settings.",
    "rungs.png": "The objective of every trial at the rungs of its bracket.",
    "pbt.png": "Population-based training: scores and settings of all members over the rounds.",
}
MOST_SETTINGS = 4
"""that a contour plot shows against each other: the most important ones"""


def draw(study: optuna.Study, records: list[Record], directory: Path) -> list[Path]:
    """Draw what the finished trials allow; returns the files.

    Args:
        study: with its trials.
        records: the decided ones.
        directory: where to draw.
    """
    complete = [record for record in records if record.outcome == "complete"]
    names = sorted({name for record in complete for name in record.params})
    varying = [name for name in names if len({str(record.params[name]) for record in complete}) > 1]
    plots: dict[str, Callable[[Any], Any]] = {}
    visual = optuna.visualization.matplotlib
    if complete:
        plots["optimisation_history.png"] = visual.plot_optimization_history
    if len(complete) > 1 and varying:
        plots["slice.png"] = lambda study: visual.plot_slice(study, params=varying)
        plots["parallel_coordinate.png"] = lambda study: visual.plot_parallel_coordinate(
            study, params=varying
        )
    if any(len(record.intermediate) > 1 for record in records):
        plots["rungs.png"] = visual.plot_intermediate_values
    if len(complete) > 3 and len(varying) > 1 and len({record.value for record in complete}) > 1:
        important = list(optuna.importance.get_param_importances(study, params=varying))
        plots["parameter_importance.png"] = lambda study: visual.plot_param_importances(
            study, params=varying
        )
        plots["contour.png"] = lambda study: visual.plot_contour(
            study, params=important[:MOST_SETTINGS]
        )
    mpl.use("agg")  # no window, whatever the display
    return [_save(plot, study, directory / name) for name, plot in plots.items()]


def _save(plot: Callable[[Any], Any], study: optuna.Study, path: Path) -> Path:
    from matplotlib import pyplot

    with warnings.catch_warnings():
        # Drawing with matplotlib is "experimental" in Optuna since 2020.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message=".*tight_layout.*|.*constrained_layout.*")
        axes = np.ravel(np.asarray(plot(study), dtype=object))
    figure = axes[0].figure
    side = math.isqrt(len(axes)) if len(axes) > 1 else 1
    figure.set_size_inches(WIDTH, max(4.5, 2.6 * side))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI // 2, bbox_inches="tight")
    pyplot.close(figure)
    return path
