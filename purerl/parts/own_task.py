"""Learners that draw a task for every agent, for environments that are task distributions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from flax import struct

from purerl import acting
from purerl.types import (
    Environment,
    EnvParams,
    EpisodeSums,
    Hyperparams,
    Learner,
    MetaParams,
    PyTree,
    TrainResult,
)
from purerl.wrapped import changed, innermost

SampleParams = Callable[[jax.Array, EnvParams], EnvParams]
"""`(key, env_params) -> env_params`: draws a task within the given ranges."""


def sampler(env: Environment) -> SampleParams | None:
    """Return the `sample_params` of an environment, wrapped or not; None if it has none."""
    sample = getattr(innermost(env)[0], "sample_params", None)
    if sample is None:
        return None
    return lambda key, params: changed(env, params, lambda _, own: sample(key, own))


class State(struct.PyTreeNode):
    """An agent and its task."""

    agent: PyTree
    """the learner's state"""
    env_params: EnvParams


@dataclass(frozen=True)
class OwnTask:
    """A learner that draws a task for every agent; conforms to `purerl.types.Learner`.

    The task depends only on the agent's key and on `env_params`, which hold the ranges. Agents with
    the same key learn in the same task, even if their settings differ.
    """

    learner: Learner
    sample_params: SampleParams

    @property
    def config(self) -> Any:
        """Static settings of the learner."""
        return self.learner.config

    @property
    def env(self) -> Any:
        """The task distribution."""
        return self.learner.env

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in a new task."""
        env_params = self.task_of(key, env_params)
        return State(self.learner.init(key, hyperparams, meta_params, env_params), env_params)

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Update the agent in its task."""
        agent, sums, metrics = self.learner.update(
            state.agent, hyperparams, meta_params, state.env_params
        )
        return State(agent, state.env_params), sums, metrics

    def train(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
        **options: Any,
    ) -> TrainResult:
        """Train one agent from scratch in a new task; see `purerl.parts.training.train`."""
        env_params = self.task_of(key, env_params)
        result = self.learner.train(key, hyperparams, meta_params, env_params, **options)
        return result.replace(state=State(result.state, env_params))

    def value_targets(
        self,
        state: State,
        hyperparams: Hyperparams,
        env_params: EnvParams,
        *meta_params: MetaParams,
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions and targets of the agent in its task."""
        learner: Any = self.learner
        return learner.value_targets(state.agent, hyperparams, state.env_params, *meta_params)

    def policy(self, state: State) -> PyTree:
        """Return the policy parameters."""
        return self.learner.policy(state.agent)

    def begin(self) -> PyTree:
        """Return the memory at the start of an episode."""
        return acting.begin(self.learner)

    def action_distribution(
        self, policy: PyTree, obs: jax.Array, memory: PyTree = None
    ) -> tuple[PyTree, PyTree]:
        """Return the distribution of actions at one observation, and the next memory."""
        return self.learner.action_distribution(policy, obs, memory)

    def task_of(self, key: jax.Array, env_params: EnvParams) -> PyTree:
        """Return the task of the agent with this key."""
        return self.sample_params(jax.random.fold_in(key, 0x7A5C), env_params)
