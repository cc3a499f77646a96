"""A learner bound to a task: one agent is trained by one call."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from metaevo.config.space import Entry
from metaevo.evolution import devices
from metaevo.tasks.fitness import FitnessConfig, all_finite, fitness, measures
from metaevo.tasks.task import Scale
from purerl.types import EnvParams, Hyperparams, Learner, MetaParams, TrainResult


class Bound(NamedTuple):
    """A learner with functions in its slots, in the environment of a task."""

    name: str
    """of the task, or of its environment"""
    learner: Learner
    env_params: EnvParams
    hyperparams: Hyperparams = None
    """of the learner on this task, if they are known"""
    sample: Mapping[str, Entry] = {}
    """distributions of traced settings by name, see `metaevo.tasks.sampling`"""
    scale: Scale | None = None
    """at the full length and without draws"""


def train(
    task: Bound, key: jax.Array, hyperparams: Hyperparams, meta_params: MetaParams
) -> TrainResult:
    """Train one agent from scratch."""
    settings = devices.as_inputs((hyperparams, meta_params, task.env_params))
    return task.learner.train(key, *settings)


def fitness_of(config: FitnessConfig, task: Bound, result: TrainResult) -> jax.Array:
    """Return the fitness of one training run, NaN if its parameters are no longer finite.

    A diverged agent still acts and collects returns, so its fitness alone does not show it.
    """
    finite = all_finite(task.learner.policy(result.state))
    return jnp.where(finite, fitness(config, measures(result.episodes)), jnp.nan)


def working_set(task: Bound, hyperparams: Hyperparams, meta_params: MetaParams) -> int:
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


def training_bytes(task: Bound, hyperparams: Hyperparams, meta_params: MetaParams) -> AgentBytes:
    """Estimate the bytes of training one agent, without compilation."""
    learner, key = task.learner, jax.random.key(0)
    state = jax.eval_shape(learner.init, key, hyperparams, meta_params, task.env_params)
    obs, _ = jax.eval_shape(learner.env.reset, key, task.env_params)
    gradient = devices.num_bytes(jax.eval_shape(learner.policy, state))
    batch = learner.config.batch_size * (2 * devices.num_bytes(obs) + 64)
    replay = devices.num_bytes(getattr(state, "ring", ()))
    return AgentBytes(devices.num_bytes(state), replay, gradient + batch)
