"""Doors in plain NumPy: the reference for the JAX environment."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from purerl.envs import grid


class DoorsGym(gymnasium.Env):
    """An independent implementation of the rules of `purerl.envs.doors.Doors`.

    `reset(options={"agent": (row, col), "goal": (row, col), "time": steps})` sets the state.
    Positions that are not given are drawn, and the default time is 0.

    Args:
        size: rows and columns of the grid.
        doors: the rows of the gaps in the wall; None for three, evenly spread.
        goal: fixed cell (row, col) of the goal; None for a new goal in every episode.
        max_steps_in_episode: number of steps after which episodes are truncated.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if the grid is too small for its doors, or the goal is outside or on the wall.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self,
        size: int = 15,
        doors: tuple[int, ...] | None = None,
        goal: grid.Cell | None = None,
        max_steps_in_episode: int = 38,
        render_mode: str | None = None,
    ):
        self.is_wall = grid.two_rooms(size, doors)
        self.size = len(self.is_wall)
        self.render_mode = render_mode
        self.max_steps_in_episode = max_steps_in_episode
        self.fixed_goal = None if goal is None else grid.free_cell("goal", goal, self.is_wall)
        self.free_cells = [(row, col) for row, col in np.argwhere(~self.is_wall).tolist()]
        self.action_space = spaces.Discrete(5)
        self.observation_space = spaces.Box(0.0, 1.0, (self.size, self.size, 4), np.float32)
        self.agent: grid.Cell | None = None
        self.goal: grid.Cell | None = None
        self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; see the class for the options.

        Raises:
            ValueError: if an option is unknown, or a cell is outside the grid or on the wall.
        """
        super().reset(seed=seed)
        options = {} if options is None else options
        if unknown := set(options) - {"agent", "goal", "time"}:
            raise ValueError(f"unknown option {min(unknown)!r}; known: agent, goal, time")
        self.goal = self.fixed_goal or self._drawn_cell()
        if "goal" in options:
            self.goal = grid.free_cell("goal", options["goal"], self.is_wall)
        if "agent" in options:
            self.agent = grid.free_cell("agent", options["agent"], self.is_wall)
        else:
            self.agent = self._drawn_cell()
            while self.agent == self.goal:
                self.agent = self._drawn_cell()
        self.time = options.get("time", 0)
        self._background = np.eye(4, dtype=np.float32)[2 * self.is_wall]
        self._background[self.goal] = (0.0, 0.0, 0.0, 1.0)
        return self._observation(), {}

    def step(self, action: jax.Array) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a step; see Gymnasium.

        Raises:
            ValueError: if the action is not in 0 to 4, or before the first reset.
        """
        if self.agent is None:
            raise ValueError("reset must be called before step")
        row, col = self.agent
        if action == 1:
            col += 1
        elif action == 2:
            row += 1
        elif action == 3:
            col -= 1
        elif action == 4:
            row -= 1
        elif action != 0:
            raise ValueError(f"action = {action!r} must be 0, 1, 2, 3 or 4")
        if 0 <= row < self.size and 0 <= col < self.size and not self.is_wall[row, col]:
            self.agent = row, col
        self.time += 1
        reward = 1.0 if self.agent == self.goal else 0.0
        return self._observation(), reward, False, self.time >= self.max_steps_in_episode, {}

    def render(self) -> np.ndarray | None:
        """Return a picture of the state, uint8 [height, width, 3], if `render_mode` is set."""
        if self.render_mode is None or self.agent is None or self.goal is None:
            return None
        return grid.paint(self.is_wall, self.goal, self.agent)

    def _drawn_cell(self) -> grid.Cell:
        return self.free_cells[self.np_random.integers(len(self.free_cells))]

    def _observation(self) -> np.ndarray:
        planes = self._background.copy()
        planes[self.agent] = (0.0, 1.0, 0.0, 0.0)
        return planes
