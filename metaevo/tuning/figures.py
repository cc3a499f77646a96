"""The figures of a sweep, which Optuna draws: history, importance, slice, contour, rungs."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import optuna
from optuna.trial import TrialState

from metaevo.config import files
from metaevo.config.plain import short_names
from metaevo.reports import plots
from metaevo.tuning.results import importance

CAPTIONS = {
    "optimisation_history.png": "The objective of every trial that ran to its end, and the best of "
    "them so far: the best of many noisy trials is always too good.",
    "parameter_importance.png": "How much of the objective's variance each setting explains "
    "(fANOVA, Hutter et al. 2014): mostly chance if there are few trials.",
    "slice.png": "The objective against each setting alone.",
    "contour.png": "The objective over pairs of the most important settings.",
    "rungs.png": "The objective of every trial at the rungs of its bracket.",
}
MOST_SETTINGS = 4
"""Most important settings that a contour plot shows against each other."""


def draw(study: optuna.Study, directory: Path) -> None:
    """Draw the figures that the finished trials allow into a directory."""
    trials = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))  # copies
    short = short_names({name for trial in trials for name in trial.params})
    for trial in trials:  # short names fit on an axis
        trial.params = {short[name]: value for name, value in trial.params.items()}
        trial.distributions = {short[name]: each for name, each in trial.distributions.items()}
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    complete = sum(trial.state == TrialState.COMPLETE for trial in trials)
    important = list(importance(study))[:MOST_SETTINGS]
    visual = optuna.visualization.matplotlib
    mpl.use("agg")  # no window, whatever the display
    plots_of: dict[str, tuple[bool, Callable[[], object]]] = {
        "optimisation_history": (complete > 0, lambda: visual.plot_optimization_history(study)),
        "parameter_importance": (
            len(important) > 1,
            lambda: visual.plot_param_importances(study),
        ),
        "slice": (complete > 1, lambda: visual.plot_slice(study)),
        "contour": (len(important) > 1, lambda: visual.plot_contour(study, params=important)),
        "rungs": (
            any(len(trial.intermediate_values) > 1 for trial in trials),
            lambda: visual.plot_intermediate_values(study),
        ),
    }
    for name, (is_possible, plot) in plots_of.items():
        if is_possible:
            _save(plot, directory / f"{name}.png")


def _save(plot: Callable[[], object], path: Path) -> None:
    from matplotlib import pyplot

    # Optuna changes pyplot's style for good, warns that it is experimental, and about layouts.
    with mpl.rc_context({}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = np.ravel(np.asarray(plot(), dtype=object))
        figure = axes[0].figure
        figure.suptitle("")  # a report has its own heading
        if len(axes) > 1:
            figure.set_layout_engine("constrained")
        rows = math.isqrt(len(axes)) if path.stem == "contour" else 1
        figure.set_size_inches(plots.WIDTH, max(4.5, 2.4 * rows))
        if path.stem == "rungs" and axes[0].get_legend() is not None:
            axes[0].get_legend().remove()  # one line per trial
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            figure.savefig(file, format="png", dpi=plots.DPI // 2, bbox_inches="tight")
    pyplot.close(figure)
