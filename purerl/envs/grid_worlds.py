"""A distribution of grids: every agent learns in its own grid.

Differences between tasks are traced, so agents in different tasks can be trained together.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl.envs import grid
from purerl.envs.grid_world import EnvParams, GridWorld
from purerl.types import PyTree


@struct.dataclass
class Layout:
    """Walls, goal and starts in a grid of `size` x `size` cells."""

    is_wall: jax.Array
    """[size * size] bool; cells outside a smaller grid are also walls"""
    goal: jax.Array
    """[] int32 row * size + column"""
    cells: jax.Array
    """[size * size] int32 all cells; the cells in which episodes may begin come first"""
    num_starts: jax.Array
    """[] uint32 number of cells in which episodes may begin"""


@struct.dataclass
class TaskParams(EnvParams):
    """Parameters of a task, or the ranges of the distribution; see `GridWorlds.sample_params`."""

    slip_probability: float = 0.2
    step_reward: float = -0.01
    layout: Layout | None = None
    """None: an open grid of full size with its goal in the lower right corner"""


class GridWorlds(GridWorld):
    """`GridWorld` with a traced layout; `sample_params` draws a task.

    Every episode begins in a random cell from which the goal can be reached.

    Args:
        size: rows and columns of the largest grid; at least 2.
        smallest_size: rows and columns of the smallest grid; at least 2.
        walls: largest share of cells that are walls, in [0, 0.5].

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, size: int = 6, smallest_size: int = 3, walls: float = 0.3):
        grid.checked_int("size", size, at_least=2)
        super().__init__(size, start="random")
        self.smallest_size = grid.checked_int("smallest_size", smallest_size, at_least=2)
        if self.smallest_size > size:
            raise ValueError(f"smallest_size = {smallest_size} must be at most size = {size}")
        if not isinstance(walls, int | float) or not 0.0 <= walls <= 0.5:
            raise ValueError(f"walls = {walls!r} must be at least 0 and at most 0.5")
        self.walls = float(walls)

    @property
    def default_params(self) -> TaskParams:
        """The largest grid without walls."""
        is_wall = np.zeros(self.is_wall.size, bool)
        goal = np.int32(self._goal_cell)
        starts = np.arange(self.is_wall.size) != goal
        return TaskParams(layout=_layout(is_wall, goal, starts))

    def sample_params(self, key: jax.Array, params: TaskParams) -> TaskParams:
        """Draw a task within the ranges that `params` give.

        Rows and columns are uniform between the smallest and the largest size. The share of walls
        is uniform between 0 and `walls`, and the goal is any cell. If walls would enclose the goal,
        the task has no walls. `slip_probability` and `step_reward` are uniform between 0 and the
        given value, `goal_reward` is uniform between half of the given value and the value, and
        `max_steps_in_episode` is log-uniform between a fifth of it and the value.
        """
        keys = jax.random.split(key, 4)
        size, cells = self.shape[0], self.is_wall.size
        row, col = np.divmod(np.arange(cells, dtype=np.int32), size)
        rows, cols = jax.random.randint(keys[0], (2,), self.smallest_size, size + 1)
        outside = (row >= rows) | (col >= cols)
        share, slip, step, goal_share, horizon = jax.random.uniform(keys[1], (5,))
        goal = jnp.argmax(jnp.where(outside, -1.0, jax.random.uniform(keys[2], (cells,))))
        is_goal = jnp.arange(cells) == goal
        is_wall = outside | (jax.random.uniform(keys[3], (cells,)) < share * self.walls)
        is_wall = is_wall & ~is_goal
        starts = self._reaching(is_goal, is_wall) & ~is_goal
        is_enclosed = ~jnp.any(starts)
        is_wall = jnp.where(is_enclosed, outside, is_wall)
        starts = jnp.where(is_enclosed, ~outside & ~is_goal, starts)
        steps = params.max_steps_in_episode * jnp.exp(-jnp.log(5.0) * horizon)
        return params.replace(
            slip_probability=slip * params.slip_probability,
            step_reward=step * params.step_reward,
            goal_reward=(0.5 + 0.5 * goal_share) * params.goal_reward,
            max_steps_in_episode=jnp.ceil(steps).astype(jnp.int32),
            layout=_layout(is_wall, goal.astype(jnp.int32), starts),
        )

    def _reaching(self, is_goal: jax.Array, is_wall: jax.Array) -> jax.Array:
        """Return the cells that can reach the goal, [cells] bool; moves are reversible."""
        table = jnp.asarray(self._neighbours).reshape(len(grid.MOVES), -1)

        def spread(_, reached):
            return reached | (jnp.any(reached[table], axis=0) & ~is_wall)

        return jax.lax.fori_loop(0, is_wall.size, spread, is_goal)

    def _goal(self, params: PyTree) -> jax.Array:
        return params.layout.goal

    def _neighbour(self, cell: jax.Array, action: jax.Array, params: PyTree) -> jax.Array:
        to = super()._neighbour(cell, action, params)
        return jnp.where(params.layout.is_wall[to], cell, to)

    def _start_cell(self, bits: jax.Array, params: PyTree) -> jax.Array:
        layout = params.layout
        return layout.cells[bits % layout.num_starts]


def _layout(is_wall: Any, goal: Any, starts: Any) -> Layout:
    xp: Any = jnp if isinstance(starts, jax.Array) else np
    order = xp.argsort(~starts).astype(np.int32)  # the order of equal values does not matter
    return Layout(is_wall, goal, order, xp.sum(starts).astype(np.uint32))
