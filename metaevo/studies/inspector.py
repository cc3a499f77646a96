"""Draws and describes learned parts."""

from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.evolution.problem import Purpose, keys_for
from metaevo.parts import learners
from metaevo.parts.part import Evolved
from metaevo.reports.pictures import PICTURES, Picture
from metaevo.reports.plots import plot_panels
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
            picture = picture_of(part.slot)
            self.captions |= {picture.file: picture.caption} if picture else {}
            self.captions |= part.captions

    def draw(self, meta_params: MetaParams, folder: Path) -> None:
        """Draw every evolved part."""
        for found in self._found(meta_params):
            if picture := picture_of(found.part.slot):
                plot_panels(picture.panels(found), folder / picture.file, **picture.layout)
            found.part.draw(found, folder)

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the evolved parts."""
        sentences: list[str] = []
        for found in self._found(meta_params):
            sentences += found.part.findings(found)
        return sentences

    def _found(self, meta_params: MetaParams) -> list[Evolved]:
        """Return the evolved parts."""
        meta_params, evolved = jax.device_get(meta_params), self.problem.parts
        learner, bound = learners.find(self.problem.learner), self.problem.bound[0]
        updates, hyperparams = bound.learner.config.num_updates, bound.hyperparams
        return [
            Evolved(part, evolved.of(meta_params, slot), learner, hyperparams,
                    lambda: self._value_targets, updates)
            for slot, part in evolved.by_slot.items()
        ]  # fmt: skip

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


def picture_of(slot: str) -> Picture | None:
    """Return the picture of a slot, if it has one."""
    if slot in PICTURES:
        return PICTURES[slot]
    from metaevo.reports import slots

    return slots.PICTURES.get(slot)
