"""A published comparison, and the training of agents that its rows measure."""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import trange

from experiments.benchmarks.tables import Cell
from metaevo.config import from_dict
from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.population import Population
from metaevo.training.settings import TrainSettings, make_task, training_class
from metaevo.training.train_learner import Task
from purerl.types import EpisodeSums

BLOCKS = 20
"""calls that a training is split into, for the progress bar"""


class Timing(NamedTuple):
    """The time of a variant; the first variant of a table is the reference of the others."""

    variant: str
    frames: int
    """environment steps of all agents"""
    seconds: float
    """without compilation"""
    compile_seconds: float | None = None


Rows = Iterator[tuple[Timing, tuple[Cell, ...]]]
"""Rows of a table: a variant's time and its results, one variant after the other."""


@dataclass(frozen=True)
class Comparison:
    """One published comparison; its options are `frames`, `agents`, `seed` and `pytorch`."""

    title: str
    published: str
    """the source's result, in a sentence"""
    columns: tuple[str, ...]
    """names of the results"""
    config: str | Path
    """settings of `metaevo train`: a preset or a file"""
    agents: tuple[int, ...]
    """numbers of agents that train at once, by default; a row for each"""
    quick: PlainDict
    """the options of --quick, which show that the comparison works"""
    rows: Callable[[PlainDict, argparse.Namespace, Path], Rows]
    """from the settings, the options and the folder of the figures"""
    packages: tuple[str, ...] = ()
    """that the agent in PyTorch needs"""


class Trained(NamedTuple):
    """The result of a training."""

    task: Task
    timing: Timing
    agents: Any
    """the learner's states on the host, [agents, ...]"""
    episodes: EpisodeSums
    """each field is [agents, points]"""
    frames: np.ndarray
    """[points] environment steps of one agent at the end of each point's window"""


def settings_of(raw: PlainDict) -> TrainSettings:
    """Return validated settings; raises `ConfigError` if they are wrong."""
    return from_dict(training_class(raw), raw)


def train(
    raw: PlainDict, *, agents: int, seed: int, points: int = 100, chunk_size: int | None = None
) -> Trained:
    """Train agents with keys that a seed gives; learning curves have at most so many points."""
    settings = settings_of(raw)
    task, functions = make_task(settings)
    updates = settings.train.num_updates
    population = Population(
        task,
        settings.hyperparams,
        functions,
        settings.fitness,
        agents=agents,
        log_every=-(-updates // points),
        metrics=True,
        chunk_size=chunk_size,
    )
    name = f"compiled, {agents:,} agent{'s' * (agents > 1)}"
    began = time.perf_counter()
    chunks = population.place(population.init(keys_for(seed, Purpose.TRAINING, agents)).rows)
    chunks = jax.block_until_ready(population.run(chunks, 0, 0))
    compiled = time.perf_counter()
    for done in trange(0, updates, length := -(-updates // BLOCKS), desc=name, leave=False):
        chunks = jax.block_until_ready(population.run(chunks, done, min(length, updates - done)))
    seconds = time.perf_counter() - compiled
    rows = population.rows(chunks)
    frames = population.windows.ends() * population.frames_per_update
    timing = Timing(name, agents * int(frames[-1]), seconds, compiled - began)
    return Trained(task, timing, rows.agent, rows.episodes, frames)
