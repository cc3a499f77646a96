"""Tabular Q-learning in a grid: loops in Python, one compiled agent, many at once.

All implement `purerl.q_learning` with squared error and its defaults: epsilon-greedy, ties broken
at random, one entry of the table updated at every step. The task is the default GridWorld: from the
upper left corner to the lower right, reward 1 there.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import metaevo
from experiments.reproductions.comparison import Comparison, Row
from purerl.envs import grid
from purerl.parts import training

SIZE, MAX_STEPS, LEARNING_RATE, GAMMA, EPSILON = 8, 100, 0.2, 0.95, 0.1
NEIGHBOURS = grid.neighbours(np.zeros((SIZE, SIZE), bool))
"""[actions, states]"""
START, GOAL = 0, SIZE**2 - 1
SHORTEST = 2 * (SIZE - 1)
"""steps from the start to the goal"""
CONFIG = Path(__file__).with_suffix(".yaml")


def numpy_loop(steps: int, seed: int = 0) -> np.ndarray:
    """Learn step by step in Python; return the table [states, 4]."""
    rng = np.random.default_rng(seed)
    q = np.zeros((SIZE**2, 4))
    state, moves = START, 0
    for _ in range(steps):
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
    return q


def greedy_steps(q: np.ndarray) -> int | None:
    """Return the steps of the greedy policy to the goal; None if it does not reach the goal."""
    state = START
    for step in range(1, MAX_STEPS + 1):
        state = NEIGHBOURS[np.argmax(q[state]), state]
        if state == GOAL:
            return step
    return None


def _quality(tables: np.ndarray) -> tuple[str, float]:
    """Return the share of agents that found a shortest path, and the median error at the start.

    Args:
        tables: [agents, states, actions].
    """
    found = np.mean([greedy_steps(table) == SHORTEST for table in tables])
    errors = np.abs(tables[:, START].max(axis=1) - GAMMA ** (SHORTEST - 1))
    return f"{found:.0%}", float(np.median(errors))


def _loops(settings: Any, seed: int) -> Iterator[Row]:
    """Loops in Python; the one around compiled steps is slow, so it takes fewer."""
    steps, began = settings.train.total_timesteps, time.perf_counter()
    table = numpy_loop(steps, seed)
    seconds = time.perf_counter() - began
    yield Row("Python loop, NumPy", steps, seconds, results=_quality(table[None]))

    one_step = {"train": {"total_timesteps": 1, "num_steps": 1}}
    population = metaevo.read_settings("train", CONFIG, one_step).population(agents=1)
    learner = population.task.learner
    inputs = settings.hyperparams, population.meta_params, population.task.env_params
    state = learner.init(jax.random.key(seed), *inputs)
    step = jax.jit(lambda state: training.update(learner, state, *inputs)[0])
    state, began = jax.block_until_ready(step(state)), time.perf_counter()
    for _ in range(steps := max(1, steps // 20)):
        state = step(state)
    table, seconds = np.asarray(state.q), time.perf_counter() - began
    yield Row("Python loop, compiled step", steps, seconds, results=_quality(table))


COMPARISON = Comparison(
    title="Tabular Q-learning in GridWorld",
    published="21,680 steps/s for a Python loop around compiled steps, 1.83 million for one "
    "compiled agent, 1.47 million for 30 agents in parallel, on one CPU.",
    config=CONFIG,
    agents=(1, 30, 1024),
    columns=("shortest way found", "error of the start's value (median)"),
    measure=lambda rows, measures: _quality(np.asarray(rows.agent.q)[:, 0]),
    theirs=_loops,
    chunk_size=lambda agents: 1 if agents < 128 else 128,  # few run one after another
)
