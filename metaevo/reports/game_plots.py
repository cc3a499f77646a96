"""Figures of games between learners, in the look of `metaevo.reports.plots`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from metaevo.reports import plots

SITUATIONS = ("start", "CC", "CD", "DC", "DD")
ZOOM = 0.2
"""If the reached payoffs span less than this share of the possible ones, zoom in on them."""
NEAR = 0.2
"""How far a line may pass from mutual defection, as a share of the payoffs' range."""
_COLORS = (plots.GREY, plots.GREEN, plots.BLUE, plots.ORANGE, plots.PURPLE)


class Line(NamedTuple):
    """The line nearest to pairs of values (other, own)."""

    factor: float
    """its slope: how much more we earn where the opponent earns 1 more"""
    miss: float
    """how far above mutual defection it passes; below, if negative"""
    explained: float
    """share of the pairs' variance that lies along it"""


class Reach(NamedTuple):
    """Payoffs that opponents can reach against one of our policies."""

    step: int
    other: ArrayLike
    """[opponents] their payoffs"""
    own: ArrayLike
    """[opponents] our payoffs"""
    line: Line
    played: tuple[float, float]
    """their and our payoff in this step"""


def plot_meta_episode(
    probabilities: ArrayLike, payoffs: ArrayLike, path: plots.PathLike, *, opponent: str
) -> Path:
    """Draw cooperation and payoffs of both over a meta-episode; returns `path`.

    Args:
        probabilities: [steps, 2, 5] of cooperating, means over meta-episodes; ours first.
        payoffs: [steps, 2].
        path: of the PNG.
        opponent: its name.
    """
    chances, earned = np.asarray(probabilities), np.asarray(payoffs)
    steps = np.arange(1, len(chances) + 1)
    figure = plots._figure(7.4, plots.NARROW)
    panels = figure.subplots(3, sharex=True)
    for player, (axes, who) in enumerate(zip(panels[:2], ("we", opponent), strict=True)):
        plots._style(axes, "", f"{who}: P(cooperate)")
        for place, (name, color) in enumerate(zip(SITUATIONS, _COLORS, strict=True)):
            label = name if name == "start" else f"after {name}"
            axes.plot(steps, chances[:, player, place], color=color, linewidth=1.8, label=label)
        axes.set_ylim(-0.03, 1.03)
    plots._style(panels[2], "joint move", "payoff a step")
    panels[2].plot(steps, earned[:, 0], color=plots.LEARNED, linewidth=2.4, label="we earn")
    panels[2].plot(steps, earned[:, 1], color=plots.INK, linewidth=1.8, linestyle=(0, (3.5, 3)),
                   label=f"{opponent} earns")  # fmt: skip
    figure.align_ylabels()
    plots._legend(figure, panels[0], panels[2])
    return plots._save(figure, path)


def plot_payoffs(
    records: Sequence[Mapping[str, Any]], path: plots.PathLike, *, opponent: str
) -> Path:
    """Draw what both sides earn over the generations; returns `path`.

    Args:
        records: of the generations.
        path: of the PNG.
        opponent: its name.
    """
    generation = plots._column(records, "generation")
    figure = plots._figure(4.4, plots.NARROW)
    axes = plots._style(figure.subplots(), "generation", "payoff a step")
    of_mean = plots._column(records, "fitness_of_mean")
    shown = np.isfinite(of_mean)
    axes.plot(generation, plots._column(records, "fitness_mean"), color=plots.BLUE, linewidth=1.8,
              label="we, mean of the candidates")  # fmt: skip
    axes.plot(generation[shown], of_mean[shown], color=plots.LEARNED, linewidth=1.8, marker="o",
              markersize=4, label="we, the strategy's mean (validation)")  # fmt: skip
    axes.plot(generation, plots._column(records, "opponent"), color=plots.INK, linewidth=1.8,
              linestyle=(0, (3.5, 3)), label=f"{opponent}, mean over candidates")  # fmt: skip
    plots._legend(figure, axes)
    return plots._save(figure, path)


def plot_coins(players: Mapping[str, tuple[ArrayLike, ArrayLike]], path: plots.PathLike) -> Path:
    """Draw rewards in the Coin Game and the shares of own coins; returns `path`.

    Args:
        players: by the name of who plays our part, rewards a step [episodes, 2], ours first, and
            shares of coins of the own colour, alike.
        path: of the PNG.
    """
    figure = plots._figure(1.2 + 2.6 * len(players), plots.NARROW)
    panels = figure.subplots(len(players), 2, sharex=True, sharey="col", squeeze=False)
    for place, (row, (name, sides)) in enumerate(zip(panels, players.items(), strict=True), 1):
        for axes, side, text in zip(row, sides, ("reward a step", "share of own coins"),
                                    strict=True):  # fmt: skip
            plots._style(axes, "episode" if place == len(players) else "", text)
            axes.set_title(name, loc="left", fontsize=11, color=plots.INK)
            values = np.asarray(side, float)
            episodes = np.arange(1, len(values) + 1)
            axes.plot(episodes, values[:, 0], color=plots.LEARNED, linewidth=2.2, label="we")
            axes.plot(episodes, values[:, 1], color=plots.INK, linewidth=1.8,
                      linestyle=(0, (3.5, 3)), label="the opponent")  # fmt: skip
    plots._legend(figure, panels[0, 0])
    return plots._save(figure, path)


def plot_reach(
    reaches: Sequence[Reach],
    corners: ArrayLike,
    path: plots.PathLike,
    *,
    predicted: tuple[float, float] | None,
) -> Path:
    """Draw the pairs of values that an opponent can reach against some of our policies.

    Args:
        reaches: a panel each.
        corners: [4, 2] payoffs of the opponent and of us after CC, CD, DC and DD.
        path: of the PNG.
        predicted: a point (other, own) of the lines that extortion predicts, which are drawn where
            the fitted ones pass near it; None for no lines.

    Returns:
        `path`.
    """
    corners = np.asarray(corners, float)
    low, high = _window(reaches, corners)
    columns = min(2, len(reaches))
    rows = -(-len(reaches) // columns)
    figure = plots._figure(0.9 + 2.9 * rows, plots.NARROW)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(reaches) :]:
        axes.set_visible(False)
    for index, (axes, reach) in enumerate(zip(panels, reaches, strict=False)):
        bottom, left = index >= len(reaches) - columns, index % columns == 0
        plots._style(axes, "opponent earns" if bottom else "", "we earn" if left else "")
        axes.set_title(f"joint move {reach.step}: factor {reach.line.factor:.2f}", fontsize=11,
                       color=plots.INK)  # fmt: skip
        _outline(axes, corners)
        axes.scatter(reach.other, reach.own, s=5, color=plots.BLUE, alpha=0.35, linewidth=0,
                     label="reached by an opponent", zorder=2)  # fmt: skip
        near = abs(reach.line.miss) < NEAR * np.ptp(corners[:, 1])
        if predicted is not None and near:
            axes.axline(predicted, slope=reach.line.factor, color=plots.LEARNED, linewidth=1.8,
                        label="through mutual defection, fitted factor", zorder=3)  # fmt: skip
        axes.plot(*reach.played, marker="*", markersize=13, color=plots.INK, linestyle="none",
                  label="reached in play", zorder=4)  # fmt: skip
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
    plots._legend(figure, *panels[: len(reaches)])
    return plots._save(figure, path)


def _window(reaches: Sequence[Reach], corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the axes begin and end: around all possible payoffs, or a part."""
    reached = np.concatenate(
        [np.stack([each.other, each.own], axis=-1) for each in reaches]
        + [np.array([each.played for each in reaches])]
    )
    small = np.all(np.ptp(reached, axis=0) < ZOOM * np.ptp(corners, axis=0))
    shown = reached if small else corners
    margin = 0.04 * np.ptp(shown, axis=0) + 1e-6
    return shown.min(axis=0) - margin, shown.max(axis=0) + margin


def _outline(axes: Axes, corners: np.ndarray) -> None:
    """Fill the possible payoffs of the game."""
    try:
        corners = corners[ConvexHull(corners).vertices]
    except QhullError:  # of a zero-sum game it is a line
        axes.plot(*corners.T, color=plots.LIGHT, linewidth=4, label="possible in the game")
        return
    axes.fill(*corners.T, color=plots.LIGHT, alpha=0.6, linewidth=0, label="possible in the game")
