"""Whole trainings of a learner, from beginning to end: only scores and curves leave the devices.

    trainings = Trainings(task, meta_params, fitness)
    trainings.train(keys, [hyperparams, ...]).scores     # [settings, seeds]

Another number of settings or agents does not recompile, as long as the chunk size stays the same.
`Population` also trains step by step.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.rows import RowMap, choose_chunk_size
from metaevo.tasks.fitness import FitnessConfig, Windows
from metaevo.tasks.task import Bound
from purerl.types import EnvParams, EpisodeSums, MetaParams, PyTree

MAX_POINTS = 200
"""Default limit for the points of a learning curve."""


class Trained(NamedTuple):
    """Results of complete trainings."""

    scores: Any
    """[settings, seeds]; NaN where an agent diverged or has no finished episode"""
    episodes: EpisodeSums
    """fields [settings, seeds, windows]"""


class Trainings:
    """A learner in an environment, for agents that are trained as a whole, see `Population`."""

    def __init__(
        self,
        task: Bound,
        meta_params: MetaParams,
        fitness: FitnessConfig,
        *,
        agents: int | None = None,
        log_every: int | None = None,
        chunk_size: int | None = None,
        num_devices: int | None = None,
    ):
        """Bind the parts; see `Population`."""
        config, task = task.learner.config, task.evaluated_for(fitness)
        self.task, self.meta_params, self.fitness = task, meta_params, fitness
        self.num_updates, self.frames_per_update = config.num_updates, config.frames_per_update
        every = log_every or -(-self.num_updates // MAX_POINTS)
        self.windows = Windows(every, self.num_updates)
        self.agents = agents
        available = len(devices.select(num_devices, local=True))
        self.num_devices = min(available, agents or available)
        self.chunk_size = chunk_size or choose_chunk_size(
            agents or 2**30, task.working_set(meta_params), self.num_devices
        )
        self._whole = RowMap(
            self._train_row, chunk_size=self.chunk_size, num_devices=self.num_devices, shared=1
        )

    @property
    def frames(self) -> int:
        """Environment steps of one agent's whole training, with those of its evaluations."""
        return int(self.task.frames())

    def train(
        self,
        keys: jax.Array,
        hyperparams: Sequence[PyTree] | None = None,
        meta_params: Sequence[PyTree] | None = None,
        progress: Callable[[int], Any] | None = None,
        env_params: EnvParams | None = None,
    ) -> Trained:
        """Train from beginning to end; only scores and curves leave the devices.

        Args:
            keys: [seeds], with which each setting is trained.
            hyperparams: of each setting; by default the task's.
            meta_params: of each setting; by default those given before.
            progress: called with the environment steps just done; may raise to stop.
            env_params: instead of the task's; of the same shapes they do not compile again.
        """
        env_params = self.task.env_params if env_params is None else env_params
        if meta_params is None:  # a copy for each agent: products with shared weights are slower
            meta_params = [self.meta_params] * len(hyperparams or [None])
        inputs = inputs_of(keys, hyperparams, meta_params)
        count = None if progress is None else lambda agents: progress(agents * self.frames)
        return jax.tree.map(
            lambda leaf: leaf.reshape(-1, len(keys), *leaf.shape[1:]),
            self._whole(inputs, count, shared=(env_params,)),
        )

    def _train_row(self, inputs: PlainDict, env_params: EnvParams) -> Trained:
        hyperparams, meta_params, _ = self._settings(inputs)
        task = self.task._replace(env_params=env_params)
        result = task.train(jax.random.wrap_key_data(inputs["key"]), hyperparams, meta_params)
        score, _ = task.score(self.fitness, result)
        return Trained(score, self.windows.pooled(result.episodes))

    def _settings(self, own: PlainDict) -> tuple[PyTree, PyTree, PyTree]:
        """Return hyperparams, meta-parameters and environment parameters; `own` ones come first."""
        shared = self.task.hyperparams, self.meta_params, self.task.env_params
        hyperparams, meta_params, env_params = devices.as_inputs(shared)
        return (
            own.get("hyperparams", hyperparams), own.get("meta_params", meta_params), env_params
        )  # fmt: skip


def inputs_of(
    keys: jax.Array, hyperparams: Sequence[PyTree] | None, meta_params: Sequence[PyTree] | None
) -> PlainDict:
    """Return all settings with all keys, in NumPy, so that new numbers do not compile."""

    def repeated(settings: Sequence[PyTree], dtype: Any = None) -> PyTree:
        def stacked(*leaves: Any) -> np.ndarray:
            found = np.stack(leaves, dtype=dtype, casting="same_kind")
            return np.repeat(found, len(keys), axis=0)

        return jax.tree.map(stacked, *settings)

    settings = max(len(hyperparams or ()), len(meta_params or ()), 1)
    rows: PlainDict = {"key": np.tile(np.asarray(jax.random.key_data(keys)), (settings, 1))}
    if hyperparams is not None:
        rows["hyperparams"] = repeated(hyperparams, np.float32)
    if meta_params is not None:
        rows["meta_params"] = repeated(meta_params)
    return rows
