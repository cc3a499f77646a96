"""The figures of a sweep: history, importance, slice, contour, parallel axes.

Optuna draws them; they get the look of our other figures afterwards.
"""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from optuna.trial import TrialState

from metaevo.config import files
from metaevo.reports import plots

CAPTIONS = {
    "optimisation_history.png": "The objective of every trial that ran to its end, and the best of "
    "them so far: the best of many noisy trials is always too good.",
    "parameter_importance.png": "How much of the objective's variance each setting explains "
    "(fANOVA, Hutter et al. 2014).",
    "slice.png": "The objective against each setting alone.",
    "contour.png": "The objective over pairs of the most important settings.",
    "parallel_coordinate.png": "Every trial as a line through its settings.",
    "rungs.png": "The objective of every trial at the rungs of its bracket.",
    "pbt.png": "Population-based training: the best fitness of every round and the settings of "
    "the best member's ancestors (red), and the settings of all members.",
}
_OURS = {"#1f77b4": plots.BLUE, "#d62728": plots.LEARNED, "#ff0000": plots.LEARNED}
"""Colours of Optuna's, and ours."""
MOST_SETTINGS = 4
"""that a contour plot shows against each other: the most important ones"""


def draw(study: optuna.Study, directory: Path) -> list[Path]:
    """Draw the figures that the finished trials allow, and return their paths.

    Args:
        study: failed trials are left out.
        directory: where to draw.
    """
    study = with_short_names(study)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    names = sorted({name for trial in complete for name in trial.params})
    varying = [name for name in names if len({trial.params[name] for trial in complete}) > 1]
    visual = optuna.visualization.matplotlib
    plots: dict[str, Callable[[], Any]] = {}
    if complete:
        plots["optimisation_history.png"] = lambda: visual.plot_optimization_history(study)
    if len(complete) > 1 and varying:
        plots["slice.png"] = lambda: visual.plot_slice(study, params=varying)
        plots["parallel_coordinate.png"] = lambda: visual.plot_parallel_coordinate(
            study, params=varying
        )
    if any(len(trial.intermediate_values) > 1 for trial in study.get_trials(deepcopy=False)):
        plots["rungs.png"] = lambda: visual.plot_intermediate_values(study)
    if len(complete) > 3 and len(varying) > 1 and len({trial.value for trial in complete}) > 1:
        important = list(optuna.importance.get_param_importances(study, params=varying))
        plots["parameter_importance.png"] = lambda: visual.plot_param_importances(
            study, params=varying
        )
        plots["contour.png"] = lambda: visual.plot_contour(study, params=important[:MOST_SETTINGS])
    mpl.use("agg")  # no window, whatever the display
    return [_save(plot, directory / name) for name, plot in plots.items()]


def with_short_names(study: optuna.Study) -> optuna.Study:
    """Return a copy whose settings have the last part of their names, which fits on an axis.

    A setting keeps its whole name if its last part is ambiguous.
    """
    trials = [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    ]
    names = {name for trial in trials for name in trial.params}
    parts = [name.rpartition(".")[2] for name in names]
    short = {
        name: last if parts.count(last) == 1 else name
        for name, last in zip(names, parts, strict=True)
    }
    copy = optuna.create_study(direction="maximize")
    copy.add_trials(
        [
            optuna.create_trial(
                state=trial.state,
                value=trial.value if trial.state == TrialState.COMPLETE else None,
                params={short[name]: value for name, value in trial.params.items()},
                distributions={short[name]: each for name, each in trial.distributions.items()},
                intermediate_values=trial.intermediate_values,
            )
            for trial in trials
        ]
    )
    return copy


def _restyle(axes: Axes, *, parallel: bool) -> None:
    """Restyle axes that Optuna drew like the other figures: no grey panels, no titles.

    Args:
        axes: to change.
        parallel: whether they are one of several that share a place, each a line with ticks.
    """
    for side in ("left", "center"):
        axes.set_title("", loc=side)
    if axes.get_label() == "<colorbar>":
        return
    if parallel:
        axes.set_facecolor("none")
        axes.grid(visible=False)
        return
    shown = axes.get_xlim()
    plots._style(axes, axes.get_xlabel(), axes.get_ylabel())
    axes.set_xlim(shown)
    for line in axes.lines:
        line.set_color(_OURS.get(to_hex(line.get_color()), line.get_color()))
    filled: list[Any] = [*axes.collections, *axes.patches]
    for drawn in filled:
        faces = np.atleast_2d(drawn.get_facecolor())
        if len(faces) == 1 and (ours := _OURS.get(to_hex(faces[0]))):
            drawn.set_color(ours)
    if (legend := axes.get_legend()) is not None:
        legend.set_frame_on(False)


def _save(plot: Callable[[], Any], path: Path) -> Path:
    from matplotlib import pyplot

    # Optuna changes pyplot's style for good.
    with mpl.rc_context({}), warnings.catch_warnings():
        # Drawing with matplotlib is "experimental" in Optuna since 2020; its layouts warn, too.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message=".*[Ll]ayout.*")
        axes = np.ravel(np.asarray(plot(), dtype=object))
        figure = axes[0].figure
        figure.set_facecolor("white")
        figure.suptitle("")  # a report has its own heading
        for each in figure.axes:
            _restyle(each, parallel=path.stem == "parallel_coordinate")
        # Many axes side by side. A contour of two settings has one, with a colour bar whose grid
        # matplotlib's layout cannot handle (it divides by a ratio of zero).
        if path.stem in ("slice", "contour") and len(axes) > 1:
            figure.set_layout_engine("constrained")
        rows = math.isqrt(len(axes)) if path.stem == "contour" else 1
        figure.set_size_inches(plots.WIDTH, max(4.5, 2.4 * rows))
        if path.stem == "rungs" and axes[0].get_legend() is not None:
            axes[0].get_legend().remove()  # one line per trial
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            figure.savefig(file, format="png", dpi=plots.DPI // 2, bbox_inches="tight")
    pyplot.close(figure)
    return path
