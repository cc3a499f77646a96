"""The scale of a task: 0 is random play, 1 the hand-written reference."""

from typing import NamedTuple

import numpy as np

from metaevo.config import ConfigError
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.population import Population
from metaevo.training.task import Experiment

SEEDS = 16
"""Agents of random play and of the reference."""


class Bounds(NamedTuple):
    """Measured fitness on a task that becomes 0 and 1."""

    random: float
    """of an agent that never learns"""
    reference: float
    """of the hand-written part"""


def measure_bounds(name: str, experiment: Experiment) -> Bounds:
    """Measure random play and the reference on a named task, through the learner's own code.

    Random play is the learner under `random_play()`. In a quick look, a reference that does
    not learn counts as 1 better.

    Raises:
        ConfigError: if the reference is no better than random play, which leaves no scale.
    """
    settings, hyperparams = experiment.settings, experiment.settings.hyperparams
    keys = keys_for(settings.run.seed, Purpose.NORMALISATION, SEEDS)
    task = experiment.task(experiment.references(), None)
    population = Population(task, hyperparams, None, settings.fitness, agents=2 * SEEDS)
    trained = population.train(keys, [hyperparams.random_play(), hyperparams])
    low, high = np.mean(trained.scores, axis=1)
    if not high > low and settings.run.quick:
        high = low + 1.0
    if not high > low:
        raise ConfigError(
            f"tasks.{name}: the hand-written reference scores {high:.3g}, no better than "
            f"random play ({low:.3g}); train longer or choose other hyperparams"
        )
    return Bounds(float(low), float(high))
