"""DQN on Doors: two rooms and three doors, an environment of one's own, as `FILE.py:Doors`."""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces

from experiments.reproductions.comparison import Comparison, Row, Trained
from purerl.envs import grid
from purerl.parts.evaluation import evaluate

SIZE = 15
IS_WALL = np.zeros((SIZE, SIZE), bool)
IS_WALL[:, SIZE // 2] = True
IS_WALL[[2, 7, 12], SIZE // 2] = False
EMPTY, AGENT, WALL, GOAL = range(4)
"""Contents of a cell: the index of its plane in an observation."""

_FREE = np.flatnonzero(~IS_WALL).astype(np.int32)
_MOVES = np.concatenate([np.arange(SIZE**2, dtype=np.int32), grid.neighbours(IS_WALL).ravel()])
_CODES = np.eye(4, dtype=np.float32)
NUM_ENVS = 128
"""In doors_dqn.yaml."""


@struct.dataclass
class EnvParams(environment.EnvParams):
    """Parameters that do not cause a recompilation when they change."""

    max_steps_in_episode: int = 38


@struct.dataclass
class EnvState(environment.EnvState):
    """int32 scalars: the agent's cell, row * SIZE + column, and the steps since the reset."""

    agent: jax.Array
    time: jax.Array


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

    default_params = EnvParams()
    num_actions = 1 + len(grid.MOVES)

    def __init__(self, goal: grid.Cell = (4, 11)):
        super().__init__()
        row, column = grid.free_cell("goal", goal, IS_WALL)
        self.goal = row * SIZE + column
        self._starts = np.setdiff1d(_FREE, self.goal)
        self._background = _CODES[np.where(IS_WALL.ravel(), WALL, EMPTY)]
        self._background[self.goal] = _CODES[GOAL]

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
        return self._planes(state), state, reward, terminated, truncated, info

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Step without a reset; the step is deterministic."""
        index = jnp.asarray(action, jnp.int32) * SIZE**2 + state.agent
        agent = jnp.asarray(_MOVES).at[index].get(mode="clip")
        state = state.replace(agent=agent, time=state.time + 1)
        reward = (agent == self.goal).astype(jnp.float32)
        return self._planes(state), state, reward, jnp.zeros((), bool), {}

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Begin an episode."""
        state = self._start(key)
        return self._planes(state), state

    def action_space(self, params: EnvParams | None = None) -> spaces.Discrete:
        """Stay, right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> spaces.Box:
        """One-hot planes: empty, agent, wall, goal."""
        return spaces.Box(0.0, 1.0, (SIZE, SIZE, 4), jnp.float32)

    def _start(self, key: jax.Array) -> EnvState:
        # Remainders favour some cells by less than one in 2**32 / cells.
        place = jax.random.bits(key, (2,))[0] % np.uint32(len(self._starts))
        return EnvState(agent=jnp.asarray(self._starts)[place], time=jnp.int32(0))

    def _planes(self, state: EnvState) -> jax.Array:
        planes = jnp.asarray(self._background).at[state.agent].set(_CODES[AGENT])
        return planes.reshape(SIZE, SIZE, 4)


def _adapt(frames: int, agents: int) -> dict[str, Any]:
    return {"train": {"num_steps": max(1, frames // 100 // NUM_ENVS)}}


def _measure(trained: Trained, options: argparse.Namespace) -> Row:
    learner, env_params = trained.population.task.learner, trained.population.task.env_params
    key = jax.random.fold_in(jax.random.key(options.seed), 8)

    def play(agent):
        policy = learner.policy(agent)
        return evaluate(learner, policy, key, env_params, num_episodes=512).mean()

    greedy = float(jax.jit(jax.vmap(play))(trained.agents).mean()) / EnvParams.max_steps_in_episode
    rewards = np.asarray(trained.episodes.rewards / trained.episodes.steps)
    last = float(rewards[:, -max(1, rewards.shape[1] // 10) :].mean())
    return trained.row._replace(results=(greedy, last), curve=(trained.steps, rewards))


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    columns=("reward per step, greedy", "reward per step, last tenth"),
    config=Path(__file__).with_name("doors_dqn.yaml"),
    agents=(1,),
    measure=_measure,
    adapt=_adapt,
    ylabel="reward per step",
)
