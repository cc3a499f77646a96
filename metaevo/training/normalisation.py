"""Normalise the fitness of several environments: 0 is random play, 1 the reference."""

from collections.abc import Sequence

import numpy as np

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.fitness import FitnessConfig
from metaevo.training.population import Population
from metaevo.training.train_learner import Normalisation, Task
from purerl.types import Hyperparams

SEEDS = 16


def measure_normalisation(
    tasks: Sequence[Task], hyperparams: Hyperparams, fitness: FitnessConfig, *, seed: int
) -> Normalisation:
    """Measure random play and the reference in every environment, through the learner's own code.

    Args:
        tasks: with the hand-written parts in the slots.
        hyperparams: the evolution's hyperparams; random play is the learner under `random_play()`.
        fitness: to be normalised.
        seed: of the experiment.

    Raises:
        ValueError: if the reference is no better than random play, which leaves no scale.
    """
    keys = keys_for(seed, Purpose.NORMALISATION, SEEDS)
    bounds = []
    for task in tasks:
        population = Population(task, hyperparams, None, fitness, agents=2 * SEEDS)
        trained = population.train(keys, [hyperparams.random_play(), hyperparams])
        low, high = np.mean(trained.scores, axis=1)
        if not high > low:
            raise ValueError(
                f"{task.name}: the hand-written reference scores {high:.3g}, no better than "
                f"random play ({low:.3g}); train longer or choose other hyperparams"
            )
        bounds.append((float(low), float(high)))
    low_bounds, high_bounds = zip(*bounds, strict=True)
    return Normalisation(low_bounds, high_bounds)
