"""Pictures of tabular agents: values, the greedy policy, visits."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from metaevo.reports.plots import INK, new_figure, save_figure
from purerl.envs import grid
from purerl.types import Environment

Move = tuple[int, int]

MOVES: dict[str, tuple[Move, ...]] = {
    "GridWorld": grid.MOVES,
    "GridWorlds": grid.MOVES,
    "FourRooms-misc": ((-1, 0), (0, 1), (1, 0), (0, -1)),
    "FrozenLake-misc": ((0, -1), (1, 0), (0, 1), (-1, 0)),
}
"""Changes of (row, column) by each action, by environment."""


class GridMap(NamedTuple):
    """The grid of an environment's states."""

    shape: tuple[int, int]
    moves: tuple[Move, ...]
    """change of (row, column) by each action; empty if it is not fixed"""


def grid_map(env: Environment, num_states: int) -> GridMap | None:
    """Return the grid of an environment's states, row by row; None if the states form no grid."""
    while hasattr(env, "env"):
        env = env.env
    shape: Any = getattr(env, "shape", None)
    if shape is None:
        side = round(num_states**0.5)
        if side * side != num_states:
            return None
        shape = (side, side)
    return GridMap(tuple(shape), MOVES.get(env.name, ()))


def plot_value_map(
    q: np.ndarray, visits: np.ndarray, cells: GridMap, path: str | Path, *, title: str = ""
) -> Path:
    """Draw max Q of every state with its greedy actions as arrows, and the visits; return the path.

    Args:
        q: [num_states, num_actions] action values.
        visits: [num_states, num_actions] number of times each action was taken; states without
            visits (walls, unreachable states) stay blank.
        cells: the grid.
        path: output path of the PNG.
        title: title above the figure.
    """
    rows, cols = cells.shape
    seen = visits.sum(axis=1) > 0
    figure = new_figure(4.6 if rows <= 1.3 * cols else 6.0, title=title)
    left, right = figure.subplots(1, 2)
    values = np.where(seen, q.max(axis=1), np.nan).reshape(rows, cols)
    _map(left, values, "highest action value, greedy actions")
    counts = np.where(seen, visits.sum(axis=1), np.nan).reshape(rows, cols)
    _map(right, np.log10(counts), "visits, log10")
    for cell in np.flatnonzero(seen):
        row, col = divmod(int(cell), cols)
        best = np.flatnonzero(np.isclose(q[cell], q[cell].max(), rtol=1e-6, atol=0.0))
        if len(best) == q.shape[1]:  # untrained: the agent has no preference
            continue
        for action in best:
            if action < len(cells.moves):
                _arrow(left, row, col, cells.moves[action])
    return save_figure(figure, path)


def _map(axes: Axes, values: np.ndarray, label: str) -> None:
    axes.set_facecolor("#E8E8E8")
    image = axes.imshow(values, cmap="viridis")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(INK)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)
    axes.set_title(label, fontsize=11, color=INK)


def _arrow(axes: Axes, row: int, col: int, move: Move) -> None:
    down, right = move
    style = {"arrowstyle": "-|>", "color": "white", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    start, end = (col - 0.28 * right, row - 0.28 * down), (col + 0.28 * right, row + 0.28 * down)
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
