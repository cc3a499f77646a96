"""Draws and describes learned parts."""

from functools import cached_property
from typing import Any

import jax
import numpy as np

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import learners
from metaevo.parts.part import Evolved
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams

AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""


class PartInspector:
    """Provides the arguments of the functions that draw and describe parts."""

    def __init__(self, problem: LearnerProblem, seed: int):
        """Bind the parts on the first task; training starts later."""
        self.problem, self.seed = problem, seed

    def found(self, meta_params: MetaParams) -> dict[str, Evolved]:
        """Return the evolved parts by their slots."""
        meta_params, parts = jax.device_get(meta_params), self.problem.parts
        learner, bound = learners.find(self.problem.learner), self.problem.bound[0]
        updates, hyperparams = bound.learner.config.num_updates, bound.hyperparams
        return {
            slot: Evolved(part, parts.of(meta_params, slot), learner, hyperparams,
                          lambda: self._value_targets, updates)
            for slot, part in parts.by_slot.items()
        }  # fmt: skip

    @cached_property
    def _value_targets(self) -> np.ndarray:
        """Predictions and targets [2, samples] of agents trained half-way with hand-written parts.

        Without the agents that diverged; a single error of one if all did.
        """
        task, hyperparams = self.problem.experiment.reference(), self.problem.bound[0].hyperparams
        population = Population(task, hyperparams, None, self.problem.weights, agents=AGENTS)
        untrained = population.init(keys_for(self.seed, Purpose.ILLUSTRATION, AGENTS))
        agents = population.advance(untrained, population.num_updates // 2)

        def observe(state: Any) -> Any:
            learner: Any = task.learner
            return learner.value_targets(state, hyperparams, task.env_params)

        seen = jax.device_get(jax.jit(jax.vmap(observe))(population.states(agents)))
        errors = np.stack([each.ravel() for each in seen])
        usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
        return usable if usable.size else np.array([[1.0], [0.0]], np.float32)
