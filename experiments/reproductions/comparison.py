"""A published comparison, and the training of agents that its rows measure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import metaevo
from experiments.benchmarks.tables import Cell


class Row(NamedTuple):
    """A variant of a table; the first one is the reference of the others' speed."""

    variant: str
    frames: int
    """environment steps of all agents"""
    seconds: float
    """without compilation"""
    compile_seconds: float | None = None
    results: tuple[Cell, ...] = ()
    ended: np.ndarray | None = None
    """[2, agents, updates] how many episodes ended in each update, and the sum of their returns"""


@dataclass(frozen=True)
class Comparison:
    """One published comparison."""

    title: str
    published: str
    """the source's result, in a sentence"""
    config: str | Path
    """settings of `metaevo train`: a preset or a file"""
    agents: tuple[int, ...]
    """numbers of agents that train at once, by default; a row for each"""
    columns: tuple[str, ...]
    """names of the results"""
    measure: Callable[[Any, dict[str, jax.Array]], tuple[Cell, ...]]
    """results of trained agents, from their rows and the measures [agents] of `metaevo.measures`"""
    theirs: Callable[[Any, int], Iterable[Row]] = lambda settings, seed: ()
    """what ours are compared with"""
    needs: str | None = None
    """package of theirs"""
    chunk_size: Callable[[int], int | None] = lambda agents: None
    """the fastest one, by the number of agents; None for metaevo's choice"""

    def settings(self, frames: int | None = None) -> Any:
        """Return settings of `metaevo train`; raises `metaevo.ConfigError` if they are wrong."""
        changes = {} if frames is None else {"train": {"total_timesteps": frames}}
        return metaevo.read_settings("train", self.config, changes)

    def train(self, settings: Any, agents: int, seed: int) -> Row:
        """Train agents with keys that a seed gives."""
        population: metaevo.Population = settings.population(
            agents=agents, log_every=1, chunk_size=self.chunk_size(agents)
        )
        blocks = [*population.blocks(population.start(seed), 0, population.num_updates)]
        compiling, *seconds = (elapsed for _, _, elapsed in blocks)
        rows = population.rows(blocks[-1][0])
        measures = jax.vmap(metaevo.measures)(rows.episodes, None, rows.evaluations)
        return Row(
            f"compiled, {agents:,} agent{'s' * (agents > 1)}",
            agents * population.num_updates * population.frames_per_update,
            sum(seconds),
            compiling,
            self.measure(rows, measures),
            np.stack([rows.episodes.episodes, rows.episodes.returns]),
        )
