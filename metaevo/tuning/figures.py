"""The figures of a sweep: history, importance, slice, contour, rungs.

Optuna draws them; they get the look of our other figures afterwards.
"""

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import optuna
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter
from optuna.trial import TrialState

from metaevo.config import files
from metaevo.config.plain import short_names
from metaevo.reports import plots
from metaevo.tuning.results import importance, varying_settings

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
    study = with_short_names(study)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    varying = varying_settings(complete)
    visual = optuna.visualization.matplotlib
    mpl.use("agg")  # no window, whatever the display

    def save(name: str, plot: Callable[..., object], **options: object) -> None:
        _save(lambda: plot(study, **options), directory / f"{name}.png")

    if complete:
        save("optimisation_history", visual.plot_optimization_history)
    if len(complete) > 1 and varying:
        save("slice", visual.plot_slice, params=varying)
    if any(len(trial.intermediate_values) > 1 for trial in study.get_trials(deepcopy=False)):
        save("rungs", visual.plot_intermediate_values)
    if len(varying) > 1 and (important := list(importance(study))):
        save("parameter_importance", visual.plot_param_importances, params=varying)
        save("contour", visual.plot_contour, params=important[:MOST_SETTINGS])


def with_short_names(study: optuna.Study) -> optuna.Study:
    """Return a copy with short names of the settings, which fit on an axis."""
    trials = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    short = short_names({name for trial in trials for name in trial.params})
    for trial in trials:  # copies
        trial.params = {short[name]: value for name, value in trial.params.items()}
        trial.distributions = {short[name]: each for name, each in trial.distributions.items()}
    copy = optuna.create_study(direction="maximize")
    copy.add_trials(trials)
    return copy


def _save(plot: Callable[[], object], path: Path) -> None:
    from matplotlib import pyplot

    # Optuna changes pyplot's style for good, warns that it is experimental, and about layouts.
    with mpl.rc_context({}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = np.ravel(np.asarray(plot(), dtype=object))
        figure = axes[0].figure
        figure.suptitle("")  # a report has its own heading
        for each in figure.axes:
            for side in ("left", "center"):
                each.set_title("", loc=side)
            if each.get_label() != "<colorbar>":
                shown = each.get_xlim()
                plots.style_axes(each, each.get_xlabel(), each.get_ylabel())
                each.set_xlim(shown)
                if each.get_xscale() == "log" and path.stem == "slice":  # narrow panels
                    each.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
                    each.xaxis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False))
                    each.xaxis.set_minor_formatter(NullFormatter())
        if len(axes) > 1:
            figure.set_layout_engine("constrained")
        rows = math.isqrt(len(axes)) if path.stem == "contour" else 1
        figure.set_size_inches(plots.WIDTH, max(4.5, 2.4 * rows))
        if path.stem == "rungs" and axes[0].get_legend() is not None:
            axes[0].get_legend().remove()  # one line per trial
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            figure.savefig(
                file, format="png", dpi=plots.DPI // 2, facecolor="white", bbox_inches="tight"
            )
    pyplot.close(figure)
