"""DQN on Doors: two rooms and three doors, an environment of one's own, as `FILE.py:Doors`."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import environment, spaces

from experiments.benchmarks.tables import Cell
from experiments.reproductions.comparison import Comparison
from purerl.envs import grid
from purerl.envs.grid_world import EnvParams, EnvState, GridWorld

SIZE = 15
WALLS = tuple((row, SIZE // 2) for row in range(SIZE) if row not in (2, 7, 12))
EMPTY, AGENT, WALL, GOAL = range(4)
"""Contents of a cell: the index of its plane in an observation."""


class Doors(environment.Environment):
    """Walk to the goal and stay: actions 0 stay, 1 right, 2 down, 3 left, 4 up.

    A vertical wall with three gaps, the doors, splits a square grid in the middle. The agent begins
    in a free cell, drawn uniformly, which is not the goal. Every step after which it is on the goal
    has reward 1, all others 0. An episode never terminates and is truncated after
    `max_steps_in_episode` steps. A move off the grid or into the wall has no effect.

    Observations are one-hot planes [SIZE, SIZE, 4]: empty, agent, wall, goal. An agent on the goal
    hides it.

    Args:
        goal: cell (row, column) of the goal.
    """

    default_params = EnvParams(max_steps_in_episode=38)
    num_actions = 1 + len(grid.MOVES)

    def __init__(self, goal: grid.Cell = (4, 11)):
        super().__init__()
        self.grid = GridWorld(SIZE, "random", goal, WALLS, slippery=False)
        self._background = np.where(self.grid.is_wall, WALL, EMPTY)
        self._background[self.grid.goal] = GOAL

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step without a reset; the step is deterministic."""
        _, moved, *_ = self.grid.step_env(key, state, jnp.maximum(action, 1) - 1, params)
        state = moved.replace(cell=jnp.where(action == 0, state.cell, moved.cell))
        reward = self.grid.is_terminated(state, params).astype(jnp.float32)
        return self._planes(state), state, reward, jnp.zeros((), bool), {}

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Begin an episode."""
        _, state = self.grid.reset_env(key, params)
        return self._planes(state), state

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """Stay, right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Box:
        """One-hot planes: empty, agent, wall, goal."""
        return spaces.Box(0.0, 1.0, (SIZE, SIZE, 4), jnp.float32)

    def _planes(self, state: EnvState) -> jax.Array:
        cells = jnp.asarray(self._background).ravel().at[state.cell].set(AGENT)
        return jax.nn.one_hot(cells.reshape(SIZE, SIZE), 4)


def _measure(rows: Any, measures: Any) -> tuple[Cell, ...]:
    steps = Doors.default_params.max_steps_in_episode
    names = "evaluation_return", "final_return"
    return tuple(float(measures[name].mean()) / steps for name in names)


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    config=Path(__file__).with_name("doors_dqn.yaml"),
    agents=(1,),
    columns=("reward per step, greedy", "reward per step, last tenth"),
    measure=_measure,
)
