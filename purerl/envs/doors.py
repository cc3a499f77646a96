"""Two rooms and three doors: walk to a goal, which varies by episode, and stay there."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces

from purerl.envs import grid

EMPTY, AGENT, WALL, GOAL = range(4)
"""Contents of a cell: the index of its plane in an observation."""
_CODES = np.eye(4, dtype=np.float32)


@struct.dataclass
class EnvParams(environment.EnvParams):
    """Parameters that do not cause a recompilation when they change."""

    max_steps_in_episode: int = 38


@struct.dataclass
class EnvState(environment.EnvState):
    """Cells are row * size + col; all fields are int32 scalars."""

    agent: jax.Array
    goal: jax.Array
    time: jax.Array
    """steps since the reset"""


class Doors(environment.Environment):
    """Walk to the goal and stay: actions 0 stay, 1 right, 2 down, 3 left, 4 up.

    A vertical wall with gaps, the doors, splits a square grid in the middle. Agent and goal begin
    in distinct free cells, drawn uniformly. Every step after which the agent is on the goal has
    reward 1, all others 0. An episode never terminates and is truncated after
    `max_steps_in_episode` steps. A move off the grid or into the wall has no effect.

    Observations are one-hot planes [size, size, 4]: empty, agent, wall, goal. An agent on the goal
    hides it.

    With the default settings a shortest path has 10.35 steps on average (28 at most), and the
    optimal policy's mean reward per step over random starts is 0.7540.

    Args:
        size: rows and columns of the grid.
        doors: the rows of the gaps in the wall; None for three, evenly spread.
        goal: fixed cell (row, col) of the goal; None for a new goal in every episode. With a fixed
            goal, the agent's cell alone is a Markov state.

    Raises:
        ValueError: if the grid is too small for its doors, or the goal is outside the grid or on
            the wall.
    """

    default_params = EnvParams()
    num_actions = 1 + len(grid.MOVES)

    def __init__(
        self,
        size: int = 15,
        doors: tuple[int, ...] | None = None,
        goal: grid.Cell | None = None,
    ):
        super().__init__()
        self.is_wall = grid.two_rooms(size, doors)
        self.size = len(self.is_wall)
        self.goal = None if goal is None else grid.free_cell("goal", goal, self.is_wall)
        stay = np.arange(self.is_wall.size, dtype=np.int32)
        self._neighbours = np.concatenate([stay, grid.neighbours(self.is_wall).ravel()])
        self._background = _CODES[np.where(self.is_wall.ravel(), WALL, EMPTY)]
        self._free = np.flatnonzero(~self.is_wall).astype(np.int32)

    # gymnax's own `step` splits the key and computes the observation of a reset at every step.
    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step, and start the next episode if this one ended.

        Returns:
            obs, state, reward, terminated, truncated, info. If the episode ended, obs and state are
            the first of the next episode; `info["final_observation"]` belongs to this one.
        """
        params = self.default_params if params is None else params
        moved, reward = self._move(state, action)
        terminated = self.is_terminated(moved, params)
        truncated = self.is_truncated(moved, params)
        start = self._start(key)  # the move is deterministic, so the reset uses the whole key
        state = jax.tree.map(lambda new, old: jnp.where(truncated, new, old), start, moved)
        info = {
            "terminated": terminated,
            "truncated": truncated,
            "final_observation": self._planes(moved),
        }
        return self._planes(state), state, reward, terminated, truncated, info

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step without a reset; the step is deterministic."""
        state, reward = self._move(state, action)
        return self._planes(state), state, reward, self.is_terminated(state, params), {}

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Begin an episode."""
        state = self._start(key)
        return self._planes(state), state

    def is_terminated(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Return False: episodes never terminate."""
        return jnp.zeros((), bool)

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """Stay, right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Box:
        """One-hot planes: empty, agent, wall, goal."""
        return spaces.Box(0.0, 1.0, (self.size, self.size, 4), jnp.float32)

    def render(self, state: EnvState, params: EnvParams | None = None) -> np.ndarray:
        """Return a picture of the state, uint8 [height, width, 3]."""
        agent, goal = (divmod(int(cell), self.size) for cell in (state.agent, state.goal))
        return grid.paint(self.is_wall, goal, agent)

    def _move(self, state: EnvState, action: jax.Array) -> tuple[EnvState, jax.Array]:
        """Return the state after a step and its reward (float32)."""
        index = jnp.asarray(action, jnp.int32) * self.is_wall.size + state.agent
        agent = jnp.asarray(self._neighbours).at[index].get(mode="clip")
        reward = (agent == state.goal).astype(jnp.float32)
        return state.replace(agent=agent, time=state.time + 1), reward

    def _start(self, key: jax.Array) -> EnvState:
        # Remainders favour some cells by less than one in 2**32 / cells.
        agent_bits, goal_bits = jax.random.bits(key, (2,))
        free, count = self._free, np.uint32(len(self._free))
        if self.goal is None:
            goal_index = (goal_bits % count).astype(jnp.int32)
        else:
            fixed = self.goal[0] * self.size + self.goal[1]
            goal_index = jnp.int32(np.searchsorted(free, fixed))
        # draw from the other free cells: skip the goal's index
        agent_index = (agent_bits % (count - np.uint32(1))).astype(jnp.int32)
        agent_index += (agent_index >= goal_index).astype(jnp.int32)
        cells = jnp.asarray(free)
        return EnvState(agent=cells[agent_index], goal=cells[goal_index], time=jnp.int32(0))

    def _planes(self, state: EnvState) -> jax.Array:
        # Two writes into a constant: three times as fast as comparing every cell.
        planes = jnp.asarray(self._background).at[state.goal].set(_CODES[GOAL])
        planes = planes.at[state.agent].set(_CODES[AGENT])  # hides the goal
        return planes.reshape(self.size, self.size, 4)
