"""Training a population with a progress bar, timed without compilation."""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.fitness import FitnessConfig
from metaevo.training.population import Population
from metaevo.training.train_learner import Task
from purerl.types import EnvParams, EpisodeSums, Hyperparams, Learner

BLOCKS = 20
"""calls that a training is split into, for the progress bar"""


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    agents: Any
    """the learner's states on the host, [agents, ...]"""
    episodes: EpisodeSums
    """each field is [agents, windows]"""
    frames: np.ndarray
    """[windows] environment steps of one agent at the end of each window"""
    seconds: float
    """without compilation"""
    compile_seconds: float

    @property
    def total_frames(self) -> int:
        """Environment steps of all agents."""
        return int(self.frames[-1]) * len(self.episodes.steps)

    @property
    def clock(self) -> np.ndarray:
        """Seconds since the start at the end of each window, at the mean speed of the run."""
        return self.frames / self.frames[-1] * self.seconds


def train(
    name: str,
    learner: Learner,
    env_params: EnvParams,
    hyperparams: Hyperparams,
    *,
    agents: int,
    seed: int,
    windows: int = 100,
    chunk_size: int | None = None,
) -> Trained:
    """Train agents with keys that a seed gives; learning curves have at most `windows` points."""
    population = Population(
        Task(name, learner, env_params),
        hyperparams,
        None,
        FitnessConfig(),
        agents=agents,
        log_every=-(-learner.config.num_updates // windows),
        metrics=True,
        chunk_size=chunk_size,
    )
    total = population.num_updates
    began = time.perf_counter()
    with tqdm(total=total, desc=f"{name}: compiling", unit="update", leave=False) as bar:
        keys = keys_for(seed, Purpose.TRAINING, agents)
        chunks = population.place(population.init(keys).rows)
        chunks = jax.block_until_ready(population.run(chunks, 0, 0))
        compile_seconds = time.perf_counter() - began
        bar.set_description(name)
        began = time.perf_counter()
        for done in range(0, total, length := -(-total // BLOCKS)):
            updates = min(length, total - done)
            chunks = jax.block_until_ready(population.run(chunks, done, updates))
            bar.update(updates)
        seconds = time.perf_counter() - began
    rows = population.rows(chunks)
    frames = population.windows.ends() * population.frames_per_update
    return Trained(rows.agent, rows.episodes, frames, seconds, compile_seconds)
