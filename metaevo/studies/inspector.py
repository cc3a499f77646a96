"""Draws and describes learned parts."""

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
        self._targets: np.ndarray | None = None

    def found(self, meta_params: MetaParams) -> dict[str, Evolved]:
        """Return the evolved parts by their slots."""
        meta_params, parts = jax.device_get(meta_params), self.problem.parts
        bound = self.problem.bound[0]
        return {
            slot: Evolved(
                part,
                parts.of(meta_params, slot),
                learners.find(self.problem.learner),
                bound.hyperparams,
                self.value_targets,
                bound.learner.config.num_updates,
            )
            for slot, part in parts.by_slot.items()
        }

    def value_targets(self) -> np.ndarray:
        """Train a few agents half-way with hand-written parts; later calls reuse the result.

        Returns:
            [2, samples] predictions and targets of agents that did not diverge; a single error of
            one if all diverged.
        """
        if self._targets is None:
            self._targets = self._observe()
        return self._targets

    def _observe(self) -> np.ndarray:
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
