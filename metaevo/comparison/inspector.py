"""Draws and describes learned parts."""

from typing import Any

import jax
import numpy as np

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import learners
from metaevo.parts.part import Evolved
from metaevo.reports import parts
from metaevo.tasks.binding import Experiment
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from purerl.types import MetaParams

AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""


class PartInspector:
    """Provides the arguments of the functions that draw and describe parts."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        fitness: FitnessConfig | None = None,
        seed: int | None = None,
    ):
        """Bind the parts; training starts later.

        The weights of the fitness and the seed are by default those of the settings.
        """
        self.experiment, self.settings = experiment, experiment.settings
        self.fitness = self.settings.fitness if fitness is None else fitness
        self.seed = self.settings.run.seed if seed is None else seed
        self._targets: np.ndarray | None = None

    def found(self, meta_params: MetaParams) -> dict[str, Evolved]:
        """Return the evolved parts by their slots."""
        meta_params, evolved = jax.device_get(meta_params), self.experiment.evolved
        return {
            slot: Evolved(
                part,
                evolved.of(meta_params, slot),
                learners.find(self.settings.learner),
                self.settings.hyperparams,
                self.value_targets,
                self.settings.train.num_updates,
            )
            for slot, part in evolved.by_slot.items()
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
        settings = self.settings
        task = self.experiment.task(self.experiment.references(), None)
        population = Population(task, settings.hyperparams, None, self.fitness, agents=AGENTS)
        untrained = population.init(keys_for(self.seed, Purpose.ILLUSTRATION, AGENTS))
        agents = population.advance(untrained, population.num_updates // 2)

        def observe(state):
            learner: Any = task.learner
            return learner.value_targets(state, settings.hyperparams, task.env_params)

        seen = jax.device_get(jax.jit(jax.vmap(observe))(population.states(agents)))
        errors = np.stack([each.ravel() for each in seen])
        usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
        return usable if usable.size else np.array([[1.0], [0.0]], np.float32)

    def observations(self, meta_params: MetaParams) -> dict[str, dict[str, float]]:
        """Return the numbers that describe the parts, by their slots."""
        found = {slot: parts.observe(each) for slot, each in self.found(meta_params).items()}
        return {slot: observed for slot, observed in found.items() if observed}
