"""Two rooms and three doors: an environment of one's own, given as `FILE.py:Doors`."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces

from purerl.envs import grid

SIZE = 15
IS_WALL = np.zeros((SIZE, SIZE), bool)
IS_WALL[:, SIZE // 2] = True
IS_WALL[[2, 7, 12], SIZE // 2] = False
EMPTY, AGENT, WALL, GOAL = range(4)
"""Contents of a cell: the index of its plane in an observation."""

_FREE = np.flatnonzero(~IS_WALL).astype(np.int32)
_MOVES = np.concatenate([np.arange(SIZE**2, dtype=np.int32), grid.neighbours(IS_WALL).ravel()])
_CODES = np.eye(4, dtype=np.float32)
_BACKGROUND = _CODES[np.where(IS_WALL.ravel(), WALL, EMPTY)]


@struct.dataclass
class EnvParams(environment.EnvParams):
    """Parameters that do not cause a recompilation when they change."""

    max_steps_in_episode: int = 38


@struct.dataclass
class EnvState(environment.EnvState):
    """Cells are row * SIZE + column; all fields are int32 scalars."""

    agent: jax.Array
    goal: jax.Array
    time: jax.Array
    """steps since the reset"""


class Doors(environment.Environment):
    """Walk to the goal and stay: actions 0 stay, 1 right, 2 down, 3 left, 4 up.

    A vertical wall with three gaps, the doors, splits a square grid in the middle. Agent and goal
    begin in distinct free cells, drawn uniformly. Every step after which the agent is on the goal
    has reward 1, all others 0. An episode never terminates and is truncated after
    `max_steps_in_episode` steps. A move off the grid or into the wall has no effect.

    Observations are one-hot planes [SIZE, SIZE, 4]: empty, agent, wall, goal. An agent on the goal
    hides it.

    Args:
        goal: fixed cell (row, column) of the goal; None for a new goal in every episode.
    """

    default_params = EnvParams()
    num_actions = 1 + len(grid.MOVES)

    def __init__(self, goal: grid.Cell | None = None):
        super().__init__()
        self.goal = None if goal is None else grid.free_cell("goal", goal, IS_WALL)

    # gymnax's own `step` splits the key and computes the observation of a reset at every step.
    def step(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step, and start the next episode if this one ended."""
        params = self.default_params if params is None else params
        last, moved, reward, terminated, _ = self.step_env(key, state, action, params)
        truncated = self.is_truncated(moved, params)
        start = self._start(key)  # the move is deterministic, so the reset uses the whole key
        state = jax.tree.map(lambda new, old: jnp.where(truncated, new, old), start, moved)
        info = {"terminated": terminated, "truncated": truncated, "final_observation": last}
        return _planes(state), state, reward, terminated, truncated, info

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step without a reset; the step is deterministic."""
        index = jnp.asarray(action, jnp.int32) * SIZE**2 + state.agent
        agent = jnp.asarray(_MOVES).at[index].get(mode="clip")
        state = state.replace(agent=agent, time=state.time + 1)
        reward = (agent == state.goal).astype(jnp.float32)
        return _planes(state), state, reward, jnp.zeros((), bool), {}

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Begin an episode."""
        state = self._start(key)
        return _planes(state), state

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """Stay, right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Box:
        """One-hot planes: empty, agent, wall, goal."""
        return spaces.Box(0.0, 1.0, (SIZE, SIZE, 4), jnp.float32)

    def _start(self, key: jax.Array) -> EnvState:
        # Remainders favour some cells by less than one in 2**32 / cells.
        agent_bits, goal_bits = jax.random.bits(key, (2,))
        count = np.uint32(len(_FREE))
        if self.goal is None:
            goal_index = (goal_bits % count).astype(jnp.int32)
        else:
            goal_index = jnp.int32(np.searchsorted(_FREE, self.goal[0] * SIZE + self.goal[1]))
        # draw from the other free cells: skip the goal's index
        agent_index = (agent_bits % (count - np.uint32(1))).astype(jnp.int32)
        agent_index += (agent_index >= goal_index).astype(jnp.int32)
        cells = jnp.asarray(_FREE)
        return EnvState(agent=cells[agent_index], goal=cells[goal_index], time=jnp.int32(0))


def _planes(state: EnvState) -> jax.Array:
    # Two writes into a constant: three times as fast as comparing every cell.
    planes = jnp.asarray(_BACKGROUND).at[state.goal].set(_CODES[GOAL])
    planes = planes.at[state.agent].set(_CODES[AGENT])  # hides the goal
    return planes.reshape(SIZE, SIZE, 4)
