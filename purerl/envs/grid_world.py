"""A grid with a goal for tabular learning; a step takes a few integer operations and one draw."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces

from purerl.envs import grid


@struct.dataclass
class EnvParams(environment.EnvParams):
    """Scalars that do not cause a recompilation when they change."""

    slip_probability: float = 0.0
    """Probability that an action drawn uniformly from all four replaces the chosen action."""
    step_reward: float = 0.0
    """Reward of every step that does not reach the goal."""
    goal_reward: float = 1.0
    """Reward of the step that reaches the goal."""
    max_steps_in_episode: int = 100


@struct.dataclass
class EnvState(environment.EnvState):
    """Cell of the agent and time; both fields are int32 scalars."""

    cell: jax.Array
    """row * cols + col"""
    time: jax.Array
    """steps since the reset"""


class GridWorld(environment.Environment):
    """Walk to the goal: actions 0 right, 1 down, 2 left, 3 up; observation row * cols + col.

    A move off the grid or into a wall leaves the agent where it is. An episode terminates at the
    goal and is truncated after `max_steps_in_episode` steps.

    Args:
        size: rows and columns of the grid, or one number for both; at least 2.
        start: the cell (row, col) in which episodes begin, or "random": uniformly any free cell
            but the goal.
        goal: the cell to reach; None for the lower right corner.
        walls: cells that cannot be entered.
        slippery: False disables slips and ignores `slip_probability`. Steps with a fixed start are
            then much faster, because they draw no random number.

    Raises:
        ValueError: if start or goal is outside the grid or on a wall, if they are the same cell,
            or if the goal cannot be reached.
    """

    num_actions = len(grid.MOVES)

    def __init__(
        self,
        size: int | tuple[int, int] = 8,
        start: grid.Cell | Literal["random"] = (0, 0),
        goal: grid.Cell | None = None,
        walls: tuple[grid.Cell, ...] = (),
        slippery: bool = True,
    ):
        super().__init__()
        self.slippery = bool(slippery)
        sides = size if isinstance(size, tuple | list) else (size, size)
        if len(sides) != 2:
            raise ValueError(f"size = {size!r} must be one number or a pair (rows, columns)")
        rows, cols = (grid.checked_int("size", side, at_least=2) for side in sides)
        self.shape = rows, cols
        nothing = np.zeros(self.shape, bool)
        self.is_wall = nothing.copy()
        if not isinstance(walls, tuple | list):
            raise ValueError(f"walls = {walls!r} must be a list of cells (row, column)")
        for wall in walls:
            self.is_wall[grid.free_cell("wall", wall, nothing)] = True
        corner = rows - 1, cols - 1
        self.goal = grid.free_cell("goal", corner if goal is None else goal, self.is_wall)
        if isinstance(start, str):
            if start != "random":
                raise ValueError(f'start = {start!r} must be a cell (row, column) or "random"')
            is_start = ~self.is_wall
            is_start[self.goal] = False
        else:
            is_start = nothing.copy()
            is_start[grid.free_cell("start", start, self.is_wall)] = True
            if is_start[self.goal]:
                raise ValueError(f"start and goal must differ, both are {self.goal}")
        cut_off = np.argwhere(is_start & ~grid.reaching(self.is_wall, self.goal))
        if len(cut_off):
            cell = tuple(cut_off[0].tolist())
            raise ValueError(f"the goal {self.goal} cannot be reached from {cell}")
        self._starts = np.flatnonzero(is_start).astype(np.int32)
        if not len(self._starts):
            raise ValueError("there is no free cell to start from")
        self._goal_cell = self.goal[0] * cols + self.goal[1]
        self._neighbours = grid.neighbours(self.is_wall).ravel()

    @property
    def default_params(self) -> EnvParams:
        """No slipping, reward 1 at the goal, 100 steps."""
        return EnvParams()

    # gymnax's own `step` splits the key, and draws and computes a reset at every step.
    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step, and start the next episode where one ended, as gymnax does.

        Return obs, state, reward, terminated, truncated, info. Where an episode ended, obs and
        state are the next one's first; `info["final_observation"]` is always of this step.
        """
        params = self.default_params if params is None else params
        slip_bits, start_bits = self._draw(key)
        moved, reward, terminated = self._move(slip_bits, state, action, params)
        truncated = self.is_truncated(moved, params)
        done = terminated | truncated
        cell = jnp.where(done, self._start_cell(start_bits, params), moved.cell)
        info = {"terminated": terminated, "truncated": truncated, "final_observation": moved.cell}
        state = EnvState(cell=cell, time=jnp.where(done, 0, moved.time))
        return cell, state, reward, terminated, truncated, info

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step without a reset: the same move as `step` makes with this key."""
        state, reward, terminated = self._move(self._draw(key)[0], state, action, params)
        return state.cell, state, reward, terminated, {}

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Begin an episode."""
        cell = self._start_cell(self._draw(key)[1], params)
        return cell, EnvState(cell=cell, time=jnp.int32(0))

    def is_terminated(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Whether the agent is at the goal."""
        return state.cell == self._goal(params)

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """Right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """The index of the cell, row * cols + col."""
        return spaces.Discrete(self.is_wall.size)

    def _draw(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return two independent uint32: for the slip and for the start (0 where it is fixed)."""
        if len(self._starts) == 1:
            return jax.random.bits(key), jnp.uint32(0)
        slip_bits, start_bits = jax.random.bits(key, (2,))
        return slip_bits, start_bits

    def _goal(self, params: EnvParams) -> jax.Array | int:
        return self._goal_cell

    def _neighbour(self, cell: jax.Array, action: jax.Array, params: EnvParams) -> jax.Array:
        """Return where a move leads."""
        index = action * self.is_wall.size + cell
        return jnp.asarray(self._neighbours).at[index].get(mode="clip")

    def _start_cell(self, bits: jax.Array, params: EnvParams) -> jax.Array:
        if len(self._starts) == 1:
            return jnp.int32(self._starts[0])
        # the remainder favours some cells by less than one in 2**32 / cells
        return jnp.asarray(self._starts)[bits % np.uint32(len(self._starts))]

    def _move(
        self, bits: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[EnvState, jax.Array, jax.Array]:
        """Return the state after a step, its reward (float32) and whether it is terminal."""
        action = jnp.asarray(action, jnp.int32)
        if self.slippery:  # one draw for both: 24 bits for whether to slip, 2 for the action
            slips = (bits >> 8).astype(jnp.float32) * 2.0**-24 < params.slip_probability
            action = jnp.where(slips, (bits & 3).astype(jnp.int32), action)
        cell = self._neighbour(state.cell, action, params)
        terminated = cell == self._goal(params)
        reward = jnp.where(terminated, params.goal_reward, params.step_reward)
        return EnvState(cell=cell, time=state.time + 1), reward.astype(jnp.float32), terminated
