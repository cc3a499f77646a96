"""Tabular Q-learning in Python loops, for comparison with the compiled version.

Both loops implement `purerl.q_learning` with squared error: epsilon-greedy, ties broken at random,
one entry of the table updated at every step.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.envs import grid


class Settings(NamedTuple):
    """Settings of the task and the learner, with `purerl`'s defaults."""

    size: int = 8
    max_steps_in_episode: int = 100
    learning_rate: float = 0.2
    gamma: float = 0.95
    epsilon: float = 0.1


class NumpyGridWorld:
    """The default GridWorld: from the upper left corner to the lower right, reward 1 there."""

    def __init__(self, settings: Settings):
        is_wall = np.zeros((settings.size, settings.size), bool)
        self.neighbours = grid.neighbours(is_wall)
        self.goal = is_wall.size - 1
        self.limit = settings.max_steps_in_episode
        self.cell = self.time = 0

    def reset(self) -> int:
        """Begin an episode."""
        self.cell = self.time = 0
        return self.cell

    def step(self, action: Any) -> tuple[int, float, bool, bool]:
        """Return the cell, the reward, and whether the episode is terminated or truncated."""
        self.cell = self.neighbours[action, self.cell]
        self.time += 1
        terminated = self.cell == self.goal
        return self.cell, float(terminated), terminated, self.time >= self.limit


def numpy_loop(
    steps: int,
    seed: int = 0,
    settings: Settings = Settings(),  # noqa: B008 - immutable
    progress: Callable[[int], Any] | None = None,
) -> tuple[np.ndarray, float]:
    """Learn step by step in Python with a NumPy table.

    Returns:
        The table [states, 4] and the elapsed seconds.
    """
    env = NumpyGridWorld(settings)
    rng = np.random.default_rng(seed)
    q = np.zeros((settings.size**2, 4))
    state = env.reset()
    began = time.perf_counter()
    for step in range(steps):
        if rng.random() < settings.epsilon:
            action = rng.integers(4)
        else:
            best = np.flatnonzero(q[state] == q[state].max())
            action = best[0] if len(best) == 1 else rng.choice(best)
        next_state, reward, terminated, truncated = env.step(action)
        bootstrap = 0.0 if terminated else settings.gamma * q[next_state].max()
        q[state, action] += settings.learning_rate * (reward + bootstrap - q[state, action])
        state = env.reset() if terminated or truncated else next_state
        if progress is not None and step % 1000 == 999:
            progress(1000)
    return q, time.perf_counter() - began


def jitted_loop(steps: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """Learn step by step in Python, every step one call of a compiled function.

    Returns:
        The table [states, 4] and the elapsed seconds, without compilation.
    """
    from purerl import envs, q_learning

    env, env_params = envs.make("GridWorld", observations="index", slippery=False)
    learner = q_learning.QLearning(q_learning.Config(total_timesteps=1, num_steps=1), env)
    hyperparams = q_learning.Hyperparams()
    state = learner.init(jax.random.key(seed), hyperparams, None, env_params)
    step = jax.jit(lambda state: learner.update(state, hyperparams, None, env_params)[0])
    state = jax.block_until_ready(step(state))
    began = time.perf_counter()
    for _ in range(steps):
        state = step(state)
    jax.block_until_ready(state)
    return np.asarray(state.q[0]), time.perf_counter() - began


def optimal_values(settings: Settings = Settings()) -> np.ndarray:  # noqa: B008 - immutable
    """Return the optimal action values [states, 4], by value iteration; 0 at the goal."""
    is_wall = np.zeros((settings.size, settings.size), bool)
    neighbours, goal = grid.neighbours(is_wall), is_wall.size - 1
    q = np.zeros((is_wall.size, 4))
    for _ in range(4 * settings.size):
        values = q.max(axis=1)
        values[goal] = 0.0
        q = ((neighbours == goal) + settings.gamma * values[neighbours]).T
    q[goal] = 0.0
    return q


def greedy_steps(q: np.ndarray, settings: Settings = Settings()) -> int | None:  # noqa: B008
    """Return the steps of the greedy policy to the goal; None if it does not reach the goal."""
    env = NumpyGridWorld(settings)
    state = env.reset()
    for step in range(1, settings.max_steps_in_episode + 1):
        state, _, terminated, _ = env.step(int(np.argmax(q[state])))
        if terminated:
            return step
    return None
