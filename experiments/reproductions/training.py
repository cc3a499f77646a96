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
from purerl.types import EpisodeSums, Learner

BLOCKS = 20
"""calls that a training is split into, for the progress bar"""


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    population: Population
    agents: Any
    """the learner's states on the host, [agents, ...]"""
    episodes: EpisodeSums
    """each field is [agents, windows]"""
    seconds: float
    """without compilation"""
    compile_seconds: float

    @property
    def frames(self) -> np.ndarray:
        """Environment steps of one agent at the end of each window [windows]."""
        return self.population.windows.ends() * self.population.frames_per_update

    @property
    def total_frames(self) -> int:
        """Environment steps of all agents."""
        return int(self.frames[-1]) * len(self.episodes.steps)

    @property
    def clock(self) -> np.ndarray:
        """Seconds since the start at the end of each window, at the mean speed of the run."""
        return self.frames / self.frames[-1] * self.seconds


def make_population(
    name: str,
    learner: Learner,
    hyperparams: Any,
    env_params: Any,
    *,
    agents: int,
    windows: int = 100,
    chunk_size: int | None = None,
) -> Population:
    """Return a population with learning curves of at most `windows` points."""
    return Population(
        Task(name, learner, env_params),
        hyperparams,
        None,
        FitnessConfig(),
        agents=agents,
        log_every=-(-learner.config.num_updates // windows),
        metrics=True,
        chunk_size=chunk_size,
    )


def train(population: Population, seed: int, name: str) -> Trained:
    """Train all agents of a population from `make_population`, with keys that a seed gives."""
    assert population.agents is not None
    total = population.num_updates
    keys = keys_for(seed, Purpose.TRAINING, population.agents)
    began = time.perf_counter()
    with tqdm(total=total, desc=f"{name}: compiling", unit="update", leave=False) as bar:
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
    return Trained(population, rows.agent, rows.episodes, seconds, compile_seconds)
