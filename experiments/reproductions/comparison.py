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

import metaevo
from experiments.benchmarks.tables import Cell
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
    population: metaevo.Population
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
    others: Callable[[Any, argparse.Namespace], Iterator[Row]] = lambda *_: iter(())
    """what ours are compared with, from the settings"""
    adapt: Callable[[int, int], dict[str, Any]] = lambda *_: {}
    """changes of the settings, by environment steps and number of agents"""
    points: int = 100
    """of a learning curve, at most; 0 for every step"""
    ylabel: str = "return of finished episodes"
    packages: tuple[str, ...] = ()
    """that the agent in PyTorch needs"""

    def settings(self, frames: int | None = None, agents: int = 1) -> Any:
        """Return settings of `metaevo train`; raises `metaevo.ConfigError` if they are wrong."""
        changes: dict[str, Any] = {}
        if frames is not None:
            changes = self.adapt(frames, agents)
            changes["train"] = {"total_timesteps": frames, **changes.get("train", {})}
        return metaevo.read_settings("train", self.config, changes)

    def rows(self, options: argparse.Namespace) -> Iterator[Row]:
        """Yield the rows of the table, one variant after the other."""
        yield from self.others(self.settings(options.frames), options)
        for agents in options.agents:
            points = self.points or options.frames
            settings = self.settings(options.frames, agents)
            trained = train(settings, agents=agents, seed=options.seed, points=points)
            yield self.measure(trained, options)


def train(settings: Any, *, agents: int, seed: int, points: int) -> Trained:
    """Train agents with keys that a seed gives; learning curves have at most so many points."""
    updates = settings.train.num_updates
    population = settings.population(agents=agents, log_every=-(-updates // points), metrics=True)
    name = f"compiled, {agents:,} agent{'s' * (agents > 1)}"
    began = time.perf_counter()
    chunks = population.place(population.init(population.keys(seed)).rows)
    chunks = jax.block_until_ready(population.run(chunks, 0, 0))
    compiled = time.perf_counter()
    for done in trange(0, updates, length := -(-updates // BLOCKS), desc=name, leave=False):
        chunks = jax.block_until_ready(population.run(chunks, done, min(length, updates - done)))
    seconds = time.perf_counter() - compiled
    rows = population.rows(chunks)
    steps = population.windows.ends() * population.frames_per_update
    row = Row(name, agents * int(steps[-1]), seconds, compiled - began)
    return Trained(row, population, rows.agent, rows.episodes, steps)


def mean_returns(episodes: EpisodeSums) -> np.ndarray:
    """Return the mean return [...] of sums [...], NaN where no episode finished."""
    count = episodes.episodes
    return np.where(count > 0, episodes.returns / np.maximum(count, 1), np.nan)
