"""The figures of a sweep, which Optuna draws: history, importance, slice, contour, rungs."""

import warnings
from pathlib import Path
from typing import Any

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
WIDTH = 9.0  # inches


def draw(study: optuna.Study, directory: Path) -> None:
    """Draw the figures that the finished trials allow into a directory."""
    import matplotlib as mpl
    from matplotlib import pyplot

    trials = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))  # copies
    short = short_names({name for trial in trials for name in trial.params})
    for trial in trials:  # short names fit on an axis
        trial.params = {short[name]: value for name, value in trial.params.items()}
        trial.distributions = {short[name]: each for name, each in trial.distributions.items()}
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    complete = sum(trial.state == TrialState.COMPLETE for trial in trials)
    important = list(importance(study))[:MOST_SETTINGS]
    has_rungs = any(len(trial.intermediate_values) > 1 for trial in trials)
    visual = optuna.visualization.matplotlib
    mpl.use("agg")  # no window, whatever the display
    # Optuna changes pyplot's style for good, warns that it is experimental, and about layouts.
    with mpl.rc_context({}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn: dict[str, Any] = {}
        if complete:
            drawn["optimisation_history"] = visual.plot_optimization_history(study)
        if complete > 1:
            drawn["slice"] = visual.plot_slice(study)
        if len(important) > 1:
            drawn["parameter_importance"] = visual.plot_param_importances(study)
            drawn["contour"] = visual.plot_contour(study, params=important)
        if has_rungs:
            drawn["rungs"] = visual.plot_intermediate_values(study)
        for name, axes in drawn.items():
            shape = np.shape(axes)
            first = np.ravel(np.asarray(axes, dtype=object))[0]
            figure = first.figure
            figure.suptitle("")  # a report has its own heading
            if shape:
                figure.set_layout_engine("constrained")
            figure.set_size_inches(WIDTH, max(4.5, 2.4 * shape[0] if len(shape) > 1 else 0.0))
            if first.get_legend() is not None and name == "rungs":
                first.get_legend().remove()  # one line per trial
            directory.mkdir(parents=True, exist_ok=True)
            with files.replacing(directory / f"{name}.png") as file:
                figure.savefig(file, format="png", dpi=plots.DPI // 2, bbox_inches="tight")
            pyplot.close(figure)
