"""Figures of games between learners and of cheap talk, in the style of `metaevo.reports.plots`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from metaevo.reports import plots

SITUATIONS = ("start", "CC", "CD", "DC", "DD")
DASHED = (0, (3.5, 3))
NEAR = 0.2
"""Largest distance of a drawn line from mutual defection, as a share of the payoffs' range."""
COORDINATES = {"CartPole-v1": ("cart position", "cart velocity", "pole angle", "pole velocity")}
"""Names of the coordinates of an observation, by environment."""
SIDE, SHOWN = 61, 4
"""Points along an axis of a picture, and pictures at most."""
_COLORS = (plots.GREY, plots.GREEN, plots.BLUE, plots.ORANGE, plots.PURPLE)


class Line(NamedTuple):
    """The line nearest to pairs of values (other, own)."""

    factor: float
    """its slope: our gain for each unit that the opponent gains"""
    miss: float
    """height above mutual defection at which it passes"""
    explained: float
    """share of the pairs' variance that lies along it"""


class Reach(NamedTuple):
    """Payoffs that opponents can reach against a fixed policy of ours."""

    step: int
    pairs: np.ndarray
    """[opponents, 2] payoffs, the opponent's first"""
    line: Line
    played: np.ndarray
    """[2] payoffs in this step, the opponent's first"""


def plot_meta_episode(
    probabilities: np.ndarray, payoffs: np.ndarray, path: plots.PathLike, *, opponent: str
) -> Path:
    """Draw the policies and payoffs of both players over a meta-episode; returns `path`.

    `probabilities` of cooperating are [steps, 2, 5] and `payoffs` [steps, 2], ours first.
    """
    steps = np.arange(1, len(probabilities) + 1)
    figure = plots.new_figure(7.4, plots.NARROW)
    panels = figure.subplots(3, sharex=True)
    for player, (axes, who) in enumerate(zip(panels[:2], ("we", opponent), strict=True)):
        plots.style_axes(axes, "", f"{who}: P(cooperate)")
        for place, (name, color) in enumerate(zip(SITUATIONS, _COLORS, strict=True)):
            label = name if name == "start" else f"after {name}"
            chances = probabilities[:, player, place]
            axes.plot(steps, chances, color=color, linewidth=1.8, label=label)
        axes.set_ylim(-0.03, 1.03)
    plots.style_axes(panels[2], "joint move", "payoff a step")
    panels[2].plot(steps, payoffs[:, 0], color=plots.LEARNED, linewidth=2.4, label="we earn")
    panels[2].plot(
        steps,
        payoffs[:, 1],
        color=plots.INK,
        linewidth=1.8,
        linestyle=DASHED,
        label=f"{opponent} earns",
    )
    figure.align_ylabels()
    plots.add_legend(figure, panels[0], panels[2])
    return plots.save_figure(figure, path)


def plot_reach(
    reaches: Sequence[Reach],
    corners: ArrayLike,
    path: plots.PathLike,
    *,
    predicted: tuple[float, float] | None,
) -> Path:
    """Draw the pairs of values that an opponent can reach against our policies; returns `path`.

    Args:
        reaches: a panel each.
        corners: [4, 2] payoffs after CC, CD, DC and DD, the opponent's first.
        path: output path of the PNG.
        predicted: a point (other, own) on the lines of extortion, which are drawn if the fitted
            lines pass near it; None for no lines.
    """
    corners = np.asarray(corners, float)
    figure, panels = plots.new_panels(len(reaches), 2.9, plots.NARROW, sharex=True, sharey=True)
    for axes, reach in zip(panels, reaches, strict=True):
        bottom, left = axes in panels[-2:], axes in panels[::2]
        plots.style_axes(axes, "opponent earns" if bottom else "", "we earn" if left else "")
        axes.set_title(f"joint move {reach.step}: factor {reach.line.factor:.2f}", fontsize=11,
                       color=plots.INK)  # fmt: skip
        other, own = reach.pairs.T
        axes.scatter(other, own, s=5, color=plots.BLUE, alpha=0.35, linewidth=0,
                     label="reached by an opponent", zorder=2)  # fmt: skip
        axes.plot(*reach.played, marker="*", markersize=13, color=plots.INK, linestyle="none",
                  label="reached in play", zorder=4)  # fmt: skip
        axes.margins(0.1)
    panels[0].autoscale(enable=False)  # the axes show the values that are reached
    for axes, reach in zip(panels, reaches, strict=True):
        axes.fill(*corners[_ring(corners)].T, color=plots.LIGHT, alpha=0.6, linewidth=2,
                  label="possible in the game", zorder=0)  # fmt: skip
        near = abs(reach.line.miss) < NEAR * np.ptp(corners[:, 1])
        if predicted is not None and near:
            axes.axline(predicted, slope=reach.line.factor, color=plots.LEARNED, linewidth=1.8,
                        label="through mutual defection, fitted factor", zorder=3)  # fmt: skip
    plots.add_legend(figure, *panels)
    return plots.save_figure(figure, path)


def _ring(corners: np.ndarray) -> np.ndarray:
    """Return the corners of the region of possible values in order; all of a zero-sum game's."""
    try:
        return ConvexHull(corners).vertices
    except QhullError:  # they are on a line
        return np.arange(len(corners))


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
        say: function from observations [samples, obs_size] to messages [samples, width].
        middle: [obs_size] values of the other coordinates.
        low: [obs_size] lower ends of the axes.
        high: [obs_size] upper ends of the axes.
        env: name of the environment.
        path: output path of the PNG.
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
    figure = plots.new_figure(3.4, plots.NARROW if count < 3 else plots.WIDTH)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    limit = float(np.abs(said).max()) or 1.0
    extent = (low[across], high[across], low[up], high[up])
    for place, axes in enumerate(panels):
        plots.style_axes(axes, names[across], names[up] if not place else "")
        axes.grid(visible=False)
        image = axes.imshow(said[..., place], origin="lower", extent=extent, aspect="auto",
                            cmap="RdBu_r", vmin=-limit, vmax=limit)  # fmt: skip
        axes.set_title(f"message {place + 1}", fontsize=11, color=plots.INK)
    figure.colorbar(image, ax=list(panels), shrink=0.9).outline.set_visible(False)
    return plots.save_figure(figure, path)


def _line(middle: np.ndarray, low: np.ndarray, high: np.ndarray, place: int) -> np.ndarray:
    """Return observations [SIDE, obs_size] with one coordinate from its low to its high end."""
    found = np.tile(middle, (SIDE, 1)).astype(np.float32)
    found[:, place] = np.linspace(low[place], high[place], SIDE)
    return found
