"""The scale of a task: 0 is random play, 1 the hand-written reference."""

import numpy as np

from metaevo.config import ConfigError
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.tasks.bound import Bound
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.tasks.task import Scale
from purerl.types import Hyperparams

SEEDS = 16
"""Agents of random play and of the reference."""


def measure_scale(
    name: str,
    reference: Bound,
    hyperparams: Hyperparams,
    fitness: FitnessConfig,
    *,
    seed: int = 0,
    quick: bool = False,
) -> Scale:
    """Measure random play and the reference on a named task, through the learner's own code.

    Random play is the learner under `random_play()`. In a quick look, a reference that does
    not learn counts as 1 better.

    Raises:
        ConfigError: if the reference is no better than random play, which leaves no scale.
    """
    keys = keys_for(seed, Purpose.NORMALISATION, SEEDS)
    population = Population(reference, hyperparams, None, fitness, agents=2 * SEEDS)
    trained = population.train(keys, [hyperparams.random_play(), hyperparams])
    low, high = np.mean(trained.scores, axis=1)
    if not high > low and quick:
        high = low + 1.0
    if not high > low:
        raise ConfigError(
            f"tasks.{name}: the hand-written reference scores {high:.3g}, no better than "
            f"random play ({low:.3g}); train longer or choose other hyperparams"
        )
    return Scale(float(low), float(high))
