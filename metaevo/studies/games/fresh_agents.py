"""Agents that are trained from scratch for a comparison, on all devices."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import jax
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.progress import Progress
from metaevo.studies.custom import StudySettings
from metaevo.training.train_learner import Task, working_set
from purerl.types import Hyperparams

R = TypeVar("R")


class FreshAgents:
    """Agents with held-out seeds, the same for every contender of a comparison."""

    def __init__(
        self,
        settings: StudySettings,
        names: Iterable[str],
        seeds: int | None = None,
    ):
        """Choose the seeds.

        Args:
            settings: settings of the evolution.
            names: names of the contenders.
            seeds: number of agents for each contender; by default `evaluation.seeds`.
        """
        self.settings, self.names = settings, list(names)
        self.seeds = settings.evaluation.seeds if seeds is None else seeds
        self.keys = keys_for(settings.run.seed, Purpose.HELD_OUT, self.seeds)

    def rows(self, make: Callable[[jax.Array, str], PlainDict]) -> PlainDict:
        """Return rows [contenders * seeds] of arrays.

        Args:
            make: `(key of an agent, name of a contender) -> row`.
        """

        def row(key, name):
            return {"key": jax.random.key_data(key), **make(key, name)}

        rows = [jax.device_get(jax.vmap(partial(row, name=name))(self.keys)) for name in self.names]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows)

    def program(
        self,
        run: Callable[[jax.Array, PlainDict], R],
        task: Task,
        hyperparams: Hyperparams,
        frames: int,
    ) -> Callable[[PlainDict, str, Callable[[], None]], R]:
        """Compile a function of one agent.

        Args:
            run: `(key of an agent, row) -> results`.
            task: the task of the agents.
            hyperparams: example hyperparameters of the agents.
            frames: environment steps of a row.

        Returns:
            `(rows, stage, check_stop) -> results` with fields [contenders, seeds, ...]; `stage` is
            the label of the progress bar.
        """
        config, shape = self.settings.evolution, (len(self.names), self.seeds)
        chunk_size = config.chunk_size or devices.choose_chunk_size(
            math.prod(shape), working_set(task, hyperparams, None), config.num_devices
        )
        row_map = devices.RowMap(
            lambda row: run(jax.random.wrap_key_data(row["key"]), row),
            chunk_size=chunk_size,
            num_devices=config.num_devices,
        )

        def results(rows: PlainDict, stage: str, check_stop: Callable[[], None]) -> R:
            total = frames * math.prod(shape)
            with Progress(total=total, desc=stage, unit="frame", unit_scale=True) as bar:

                def progress(agents: int) -> None:
                    bar.update(agents * frames)
                    check_stop()

                found = row_map(rows, progress)
            return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)

        return results
