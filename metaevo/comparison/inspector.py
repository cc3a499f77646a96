"""Draws and describes learned parts."""

from typing import Any

import jax
import numpy as np

from metaevo.components import learners
from metaevo.components.component import Found
from metaevo.components.parts import Part
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.population import Population
from metaevo.training.task import Experiment
from purerl.types import MetaParams

AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""


class PartInspector:
    """Provides the arguments of the functions with which components draw and describe parts."""

    def __init__(self, experiment: Experiment):
        """Bind the parts; training starts later."""
        self.experiment, self.settings = experiment, experiment.settings
        self._targets: np.ndarray | None = None

    def found(self, part: Part, meta_params: MetaParams) -> Found:
        """Return the arguments of the hooks of a part's module."""
        return Found(
            part.function,
            self.experiment.evolved.of(jax.device_get(meta_params), part.name),
            learners.find(self.settings.learner),
            self.settings.hyperparams,
            self.value_targets,
            self.settings.train.num_updates,
            part.config,
        )

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
        settings = self.settings
        task = self.experiment.task(self.experiment.references(), None)
        population = Population(task, settings.hyperparams, None, settings.fitness, agents=AGENTS)
        untrained = population.init(keys_for(settings.run.seed, Purpose.ILLUSTRATION, AGENTS))
        agents = population.advance(untrained, population.num_updates // 2)

        def observe(state):
            learner: Any = task.learner
            return learner.value_targets(state, settings.hyperparams, task.env_params)

        seen = jax.device_get(jax.jit(jax.vmap(observe))(population.states(agents)))
        errors = np.stack([each.ravel() for each in seen])
        usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
        return usable if usable.size else np.array([[1.0], [0.0]], np.float32)

    def observations(self, meta_params: MetaParams) -> dict[str, dict[str, float]]:
        """Return the numbers of the parts' `observe` hooks by part."""
        found = {}
        for part in self.experiment.evolved.parts.values():
            observe = part.slot.hook(part.module, "observe")
            if observe is not None:
                found[part.name] = observe(self.found(part, meta_params))
        return found
