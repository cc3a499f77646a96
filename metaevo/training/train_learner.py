"""The meta-problem: train a learner with a learned part; the fitness is how well it learns.

problem = TrainLearner(task, hyperparams, part, FitnessConfig())
problem.evaluate(key, meta_params, 0)    # trains one agent from scratch
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import devices
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem, Programs
from metaevo.parts.part import Part, Parts
from metaevo.training.fitness import FitnessConfig, all_finite, fitness, measures
from purerl.learners import num_frames
from purerl.types import EnvParams, Hyperparams, Learner, PyTree, TrainResult


class Task(NamedTuple):
    """A learner bound to one environment and to the slot function under test."""

    name: str
    learner: Learner
    env_params: EnvParams

    @property
    def complete_from(self) -> int | None:
        """Environment steps after which even the longest episodes can have ended.

        Before that, the mean return of finished episodes only covers short episodes. None if
        episodes have no limit.
        """
        limit = getattr(self.env_params, "max_steps_in_episode", None)
        # Tabular learners have a single environment and no such setting.
        num_envs = getattr(self.learner.config, "num_envs", 1)
        return None if limit is None else int(np.max(limit)) * num_envs


@dataclass(frozen=True)
class TrainLearner(MetaProblem):
    """A learner on one task."""

    task: Task
    hyperparams: Hyperparams
    part: Part | Parts
    fitness: FitnessConfig

    @property
    def working_set_bytes(self) -> int:
        """Working set of training one agent; see `choose_chunk_size`."""
        meta_params = jax.eval_shape(self.init, jax.random.key(0))
        return working_set(self.task, self.hyperparams, meta_params)

    @property
    def programs(self) -> Programs | None:  # type: ignore[override]
        """How the meta-parameters behave, if they are programs."""
        return self.part.programs()

    def init(self, key: jax.Array) -> MetaParams:
        """Return meta-parameters of the parts."""
        return self.part.init(key)

    def frames(self, task: PyTree) -> int:
        """Return the environment steps of one evaluation."""
        return num_frames(self.task.learner.config)

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: PyTree) -> Evaluation:
        """Train one agent with these meta-parameters."""
        key = jax.random.fold_in(key, 0)
        result = train(self.task, key, self.hyperparams, meta_params)
        value = fitness_of(self.fitness, self.task, result)
        return Evaluation(value, measures(result.episodes))


def train(
    task: Task, key: jax.Array, hyperparams: Hyperparams, meta_params: MetaParams
) -> TrainResult:
    """Train one agent from scratch."""
    settings = devices.as_inputs((hyperparams, meta_params, task.env_params))
    return task.learner.train(key, *settings)


def fitness_of(config: FitnessConfig, task: Task, result: TrainResult) -> jax.Array:
    """Return the fitness of one training run, NaN if its parameters are no longer finite.

    A diverged agent still acts and collects returns, so its fitness alone does not show it.
    """
    finite = all_finite(task.learner.policy(result.state))
    return jnp.where(finite, fitness(config, measures(result.episodes)), jnp.nan)


def working_set(task: Task, hyperparams: Hyperparams, meta_params: MetaParams) -> int:
    """Estimate the bytes that training one agent walks over: its state, a gradient and a batch.

    On a CPU, where it should fit into a cache, a replay memory does not count: a learning step
    touches only a few rows. On an accelerator, where the estimate divides up the memory, it does.
    """
    found = training_bytes(task, hyperparams, meta_params)
    replay = found.replay if jax.devices()[0].platform == "cpu" else 0
    return found.state - replay + found.working


class AgentBytes(NamedTuple):
    """Estimated bytes of an agent."""

    state: int
    """between updates"""
    replay: int
    """of these, the replay memory"""
    working: int
    """of an update: a gradient and a batch"""


def training_bytes(task: Task, hyperparams: Hyperparams, meta_params: MetaParams) -> AgentBytes:
    """Estimate the bytes of training one agent, without compilation."""
    learner, key = task.learner, jax.random.key(0)
    state = jax.eval_shape(learner.init, key, hyperparams, meta_params, task.env_params)
    obs, _ = jax.eval_shape(learner.env.reset, key, task.env_params)
    gradient = devices.num_bytes(jax.eval_shape(learner.policy, state))
    batch = learner.config.batch_size * (2 * devices.num_bytes(obs) + 64)
    replay = devices.num_bytes(getattr(state, "ring", ()))
    return AgentBytes(devices.num_bytes(state), replay, gradient + batch)
