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
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.tasks.population import Population
from metaevo.tasks.task import Bound
from metaevo.training.settings import TrainSettings, make_task, training_class
from purerl.types import EpisodeSums

BLOCKS = 20
"""calls that a training is split into, for the progress bar"""


class Row(NamedTuple):
    """A variant of a table; the first one is the reference of the others' speed."""

    variant: str
    frames: int
    """environment steps of all agents"""
    seconds: float
    """without compilation"""
    compile_seconds: float | None = None
    results: tuple[Cell, ...] = ()
    curve: tuple[np.ndarray, np.ndarray] | None = None
    """environment steps of one agent [points], and learning curves [agents, points]"""


class Trained(NamedTuple):
    """The result of a training."""

    row: Row
    """without results"""
    task: Bound
    agents: Any
    """the learner's states on the host, [agents, ...]"""
    episodes: EpisodeSums
    """each field is [agents, points]"""
    steps: np.ndarray
    """[points] environment steps of one agent at the end of each point's window"""


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
    measure: Callable[[Trained, argparse.Namespace], Row]
    """complete the row of trained agents by results and learning curves"""
    others: Callable[[PlainDict, argparse.Namespace], Iterator[Row]] = lambda *_: iter(())
    """what ours are compared with, from the settings"""
    adapt: Callable[[PlainDict, int, int], PlainDict] = lambda raw, *_: raw
    """change the settings by environment steps and number of agents"""
    points: int = 100
    """of a learning curve, at most; 0 for every step"""
    ylabel: str = "return of finished episodes"
    packages: tuple[str, ...] = ()
    """that the agent in PyTorch needs"""

    def rows(self, raw: PlainDict, options: argparse.Namespace) -> Iterator[Row]:
        """Yield the rows of the table, one variant after the other."""
        yield from self.others(self.adapt(raw, options.frames, 1), options)
        for agents in options.agents:
            changed = self.adapt(raw, options.frames, agents)
            points = self.points or options.frames
            trained = train(changed, agents=agents, seed=options.seed, points=points)
            yield self.measure(trained, options)


def settings_of(raw: PlainDict) -> TrainSettings:
    """Return validated settings; raises `ConfigError` if they are wrong."""
    return from_dict(training_class(raw), raw)


def train(raw: PlainDict, *, agents: int, seed: int, points: int) -> Trained:
    """Train agents with keys that a seed gives; learning curves have at most so many points."""
    settings = settings_of(raw)
    task, functions = make_task(settings)
    updates = settings.train.num_updates
    population = Population(
        task, functions, settings.fitness, agents=agents,
        log_every=-(-updates // points), metrics=True, chunk_size=settings.run.chunk_size,
    )  # fmt: skip
    name = f"compiled, {agents:,} agent{'s' * (agents > 1)}"
    began = time.perf_counter()
    chunks = population.place(population.init(keys_for(seed, Purpose.TRAINING, agents)).rows)
    chunks = jax.block_until_ready(population.run(chunks, 0, 0))
    compiled = time.perf_counter()
    for done in trange(0, updates, length := -(-updates // BLOCKS), desc=name, leave=False):
        chunks = jax.block_until_ready(population.run(chunks, done, min(length, updates - done)))
    seconds = time.perf_counter() - compiled
    rows = population.rows(chunks)
    steps = population.windows.ends() * population.frames_per_update
    row = Row(name, agents * int(steps[-1]), seconds, compiled - began)
    return Trained(row, task, rows.agent, rows.episodes, steps)
