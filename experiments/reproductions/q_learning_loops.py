"""Tabular Q-learning in Python loops, for comparison with the compiled version.

Both loops implement `purerl.q_learning` with squared error and its defaults: epsilon-greedy, ties
broken at random, one entry of the table updated at every step. The task is the default GridWorld:
from the upper left corner to the lower right, reward 1 there.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl import envs, q_learning
from purerl.envs import grid

SIZE, MAX_STEPS, LEARNING_RATE, GAMMA, EPSILON = 8, 100, 0.2, 0.95, 0.1
NEIGHBOURS = grid.neighbours(np.zeros((SIZE, SIZE), bool))
"""[actions, states]"""
START, GOAL = 0, SIZE**2 - 1


def numpy_loop(
    steps: int, seed: int = 0, progress: Callable[[int], Any] = lambda steps: None
) -> tuple[np.ndarray, float]:
    """Learn step by step in Python with a NumPy table.

    Returns:
        The table [states, 4] and the elapsed seconds.
    """
    rng = np.random.default_rng(seed)
    q = np.zeros((SIZE**2, 4))
    state, moves = START, 0
    began = time.perf_counter()
    for step in range(steps):
        if rng.random() < EPSILON:
            action = rng.integers(4)
        else:
            best = np.flatnonzero(q[state] == q[state].max())
            action = best[0] if len(best) == 1 else rng.choice(best)
        next_state = NEIGHBOURS[action, state]
        terminated = next_state == GOAL
        target = 1.0 if terminated else GAMMA * q[next_state].max()
        q[state, action] += LEARNING_RATE * (target - q[state, action])
        state, moves = next_state, moves + 1
        if terminated or moves >= MAX_STEPS:
            state, moves = START, 0
        if step % 1000 == 999:
            progress(1000)
    return q, time.perf_counter() - began


def jitted_loop(steps: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """Learn step by step in Python, every step one call of a compiled function.

    Returns:
        The table [states, 4] and the elapsed seconds, without compilation.
    """
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


def optimal_values() -> np.ndarray:
    """Return the optimal action values [states, 4], by value iteration; 0 at the goal."""
    q = np.zeros((SIZE**2, 4))
    for _ in range(4 * SIZE):
        values = q.max(axis=1)
        values[GOAL] = 0.0
        q = ((NEIGHBOURS == GOAL) + GAMMA * values[NEIGHBOURS]).T
    q[GOAL] = 0.0
    return q


def greedy_steps(q: np.ndarray) -> int | None:
    """Return the steps of the greedy policy to the goal; None if it does not reach the goal."""
    state = START
    for step in range(1, MAX_STEPS + 1):
        state = NEIGHBOURS[np.argmax(q[state]), state]
        if state == GOAL:
            return step
    return None
