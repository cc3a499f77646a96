"""Pictures of tabular agents: values, the greedy policy, visits."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metaevo.reports import plots
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
ARROW = {"arrowstyle": "-|>", "color": "white", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}


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


def plot_value_map(q: np.ndarray, visits: np.ndarray, cells: GridMap, path: str | Path) -> Path:
    """Draw max Q of every state with its greedy actions as arrows, and the visits; return the path.

    Args:
        q: [num_states, num_actions] action values.
        visits: [num_states, num_actions] number of times each action was taken; states without
            visits (walls, unreachable states) stay blank.
        cells: the grid.
        path: output path of the PNG.
    """
    figure = plots.new_figure(4.6 if cells.shape[0] <= 1.3 * cells.shape[1] else 6.0, 9.0)
    panels = figure.subplots(1, 2)
    counts = visits.sum(axis=1)
    seen = counts > 0
    shown = {
        "highest action value, greedy actions": np.where(seen, q.max(axis=1), np.nan),
        "visits, log10": np.log10(np.where(seen, counts, np.nan)),
    }
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        axes.set_facecolor("#E8E8E8")
        image = axes.imshow(values.reshape(cells.shape), cmap="viridis")
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=11, color=plots.INK)
        figure.colorbar(image, ax=axes, shrink=0.8).outline.set_visible(False)
    for cell in np.flatnonzero(seen):
        row, col = divmod(int(cell), cells.shape[1])
        is_best = np.isclose(q[cell], q[cell].max(), rtol=1e-6, atol=0.0)
        if is_best.all():  # untrained: the agent has no preference
            continue
        for down, right in itertools.compress(cells.moves, is_best):
            start = col - 0.28 * right, row - 0.28 * down
            end = col + 0.28 * right, row + 0.28 * down
            panels[0].annotate("", xy=end, xytext=start, arrowprops=ARROW)
    return plots.save_figure(figure, path)
