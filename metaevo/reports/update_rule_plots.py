"""The figures of update rules, in the look of `metaevo.reports.plots`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from metaevo.reports import plots


class Rollout(NamedTuple):
    """A rollout in one environment with the targets of an update rule."""

    weight: Any
    """[T] of -log pi(action)"""
    following: Any
    """[T] discounted sum of the rewards that followed"""
    prediction: Any
    """[T, classes] predictions of the agent"""
    target: Any
    """[T, classes] targets of the predictions"""
    ends: Any
    """[T] bool, an episode ended with this step"""


def plot_credit(curves: Mapping[str, ArrayLike], path: plots.PathLike) -> Path:
    """Draw how a reward changes the weights [steps] of the steps before it; return the path."""
    figure = plots.new_figure(3.6, plots.NARROW)
    axes = plots.style_axes(figure.subplots(), "steps before the reward", "change of the weight")
    axes.axhline(0, color=plots.GREY, linewidth=0.8, zorder=1)
    styles = plots.line_styles(curves)
    own = [name for name in curves if plots.is_learned(name)]
    for name, curve in curves.items():
        fading = 1.0 - 0.75 * own.index(name) / len(own) if name in own else 1.0
        axes.plot(np.asarray(curve), label=name, alpha=fading, **styles[name])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    plots.add_legend(figure, axes)
    return plots.save_figure(figure, path)


def plot_rollout(rollout: Rollout, path: plots.PathLike) -> Path:
    """Draw weights with the rewards that followed, and predictions with their targets."""
    figure = plots.new_figure(5.4, plots.NARROW)
    above, *below = figure.subplots(3, 1, sharex=True, height_ratios=(2, 1.2, 1.2))
    plots.style_axes(above, "", "weight")
    steps = np.arange(len(rollout.weight))
    styles = plots.line_styles(("learned", "rewards that followed"))
    above.axhline(0, color=plots.GREY, linewidth=0.8, zorder=1)
    above.plot(steps, rollout.weight, label="learned", **styles["learned"])
    name = "rewards that followed"
    above.plot(steps, rollout.following, label=name, **styles[name])
    for end in np.flatnonzero(rollout.ends):
        above.axvline(end, color=plots.INK, linewidth=0.8, linestyle=":", zorder=1)
    named = ("prediction", rollout.prediction), ("target", rollout.target)
    most = float(max(values.max() for _, values in named))
    for axes, (name, values) in zip(below, named, strict=True):
        _image(axes, values.T, most)
        axes.set_ylabel(name, fontsize=11, color=plots.INK)
    above.xaxis.set_major_locator(MaxNLocator(integer=True))
    below[-1].set_xlabel("step of the rollout", fontsize=11, color=plots.INK)
    plots.add_legend(figure, above)
    return plots.save_figure(figure, path)


def plot_predictions(probabilities: np.ndarray, path: plots.PathLike) -> Path:
    """Draw the probabilities [rows, columns, classes] of each class in every cell of a grid."""
    classes = probabilities.shape[-1]
    figure = plots.new_figure(3.9, plots.NARROW)
    grid = figure.subplots(2, -(-classes // 2), squeeze=False).ravel()
    for axes in grid[classes:]:
        axes.set_visible(False)
    for index, axes in enumerate(grid[:classes]):
        _image(axes, probabilities[..., index], float(probabilities.max()), aspect="equal")
        axes.set_title(f"class {index + 1}", fontsize=10, color=plots.INK)
        axes.set_xticks([])
    return plots.save_figure(figure, path)


def _image(
    axes: Axes, values: np.ndarray, most: float, aspect: Literal["auto", "equal"] = "auto"
) -> None:
    """Draw probabilities; the largest of the figure is darkest."""
    axes.imshow(values, vmin=0.0, vmax=most, cmap="Blues", aspect=aspect, interpolation="nearest")
    axes.spines[:].set_color(plots.GREY)
    axes.tick_params(colors=plots.GREY, labelcolor=plots.INK, labelsize=10)
    axes.set_yticks([])
