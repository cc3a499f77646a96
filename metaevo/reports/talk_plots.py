"""Figures of messages, in the look of `metaevo.reports.plots`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.ticker import EngFormatter

from metaevo import statistics
from metaevo.reports import plots

COORDINATES = {"CartPole-v1": ("cart position", "cart velocity", "pole angle", "pole velocity")}
"""What the numbers of an observation are."""
SIDE, SHOWN = 61, 4
"""Points along an axis of a picture, and pictures at most."""


def plot_messages(
    say: Callable[[np.ndarray], np.ndarray],
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    env: str,
    path: plots.PathLike,
) -> Path:
    """Draw messages over two coordinates of the observation; returns `path`.

    Args:
        say: the channel, from observations [samples, obs_size] to messages [samples, width].
        middle: [obs_size] values of the other coordinates.
        low: [obs_size] where the axes begin.
        high: [obs_size] where they end.
        env: the environment's name.
        path: of the PNG.
    """
    high = np.where(high > low, high, low + 1.0)  # a number that never changes
    lines = [_line(middle, low, high, place) for place in range(len(middle))]
    changes = [float(np.std(say(each), axis=0).sum()) for each in lines]
    across, up = sorted(np.argsort(changes)[-2:]) if len(middle) > 1 else (0, 0)
    grid = np.tile(lines[across], (SIDE, 1)).astype(np.float32)
    if up != across:
        grid[:, up] = np.repeat(lines[up][:, up], SIDE)
    said = say(grid).reshape(SIDE, SIDE, -1)
    count = min(SHOWN, said.shape[-1])
    names = COORDINATES.get(env, [f"observation {place}" for place in range(len(middle))])
    figure = plots._figure(3.4, plots.NARROW if count < 3 else plots.WIDTH)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    limit = float(np.abs(said).max()) or 1.0
    extent = (low[across], high[across], low[up], high[up])
    for place, axes in enumerate(panels):
        plots._style(axes, names[across], names[up] if not place else "")
        axes.grid(visible=False)
        image = axes.imshow(said[..., place], origin="lower", extent=extent, aspect="auto",
                            cmap="RdBu_r", vmin=-limit, vmax=limit)  # fmt: skip
        axes.set_title(f"message {place + 1}", fontsize=11, color=plots.INK)
    figure.colorbar(image, ax=list(panels), shrink=0.9).outline.set_visible(False)
    return plots._save(figure, path)


def _line(middle: np.ndarray, low: np.ndarray, high: np.ndarray, place: int) -> np.ndarray:
    """Observations [SIDE, obs_size] of which one coordinate goes from its low to its high end."""
    found = np.tile(middle, (SIDE, 1)).astype(np.float32)
    found[:, place] = np.linspace(low[place], high[place], SIDE)
    return found


def plot_courses(place: np.ndarray, goals: np.ndarray, what: str, path: plots.PathLike) -> Path:
    """Draw where steered victims go; returns `path`.

    Args:
        place: [victims, goals, steps] where they were, NaN after an episode's end.
        goals: [goals] where they were to go.
        what: is steered.
        path: of the PNG.
    """
    figure = plots._figure(4.2, plots.NARROW)
    axes = plots._style(figure.subplots(), "step", what)
    colors = colormaps["viridis"](np.linspace(0.0, 0.9, len(goals)))
    steps = np.arange(1, place.shape[-1] + 1)
    for courses, goal, color in zip(place.swapaxes(0, 1), goals, colors, strict=True):
        axes.plot(steps, courses.T, color=color, linewidth=1.2, alpha=0.7)
        axes.axhline(goal, color=color, linewidth=1.2, linestyle=(0, (1, 2)))
    return plots._save(figure, path)


def plot_traces(
    measured: Mapping[str, Mapping[str, np.ndarray]],
    labels: Mapping[str, str],
    steps: np.ndarray,
    path: plots.PathLike,
) -> Path:
    """Draw measures of networks along training, one panel each; returns `path`.

    Args:
        measured: curves [seeds, updates] by measure and channel.
        labels: of the measures.
        steps: [updates] environment steps.
        path: of the PNG.
    """
    columns = 2
    rows = -(-len(measured) // columns)
    figure = plots._figure(2.9 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for axes, (measure, curves) in zip(panels, measured.items(), strict=False):
        plots._style(axes, "", labels[measure])
        styles = plots._line_styles(curves)
        for name, curve in curves.items():
            mean, low, high = statistics.mean_curve(curve)
            color = styles[name]["color"]
            axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
            axes.plot(steps, mean, label=name, **styles[name])
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in panels[len(measured) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(measured) - columns) : len(measured)]:
        axes.set_xlabel("environment steps")
        axes.tick_params(labelbottom=True)
    plots._legend(figure, panels[0])
    return plots._save(figure, path)
