"""Draws and describes learned parts."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import learners
from metaevo.parts.part import Evolved
from metaevo.reports import parts
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams

AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""


class PartInspector:
    """Draws and describes parts as a `MetaProblem` does its points."""

    def __init__(self, problem: LearnerProblem, seed: int):
        """Bind the parts on the first task; training starts later."""
        self.problem, self.seed = problem, seed
        self.captions: dict[str, str] = {}
        for part in problem.parts.by_slot.values():
            self.captions |= parts.captions(part)
        self._targets: np.ndarray | None = None

    def draw(self, meta_params: MetaParams, folder: Path) -> None:
        """Draw every evolved part."""
        for found in self._found(meta_params):
            parts.draw(found, folder)

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the evolved parts."""
        sentences: list[str] = []
        for found in self._found(meta_params):
            sentences += parts.findings(found, parts.observe(found))
        return sentences

    def _found(self, meta_params: MetaParams) -> list[Evolved]:
        """Return the evolved parts."""
        meta_params, evolved = jax.device_get(meta_params), self.problem.parts
        bound = self.problem.bound[0]
        return [
            Evolved(
                part,
                evolved.of(meta_params, slot),
                learners.find(self.problem.learner),
                bound.hyperparams,
                self.value_targets,
                bound.learner.config.num_updates,
            )
            for slot, part in evolved.by_slot.items()
        ]

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
