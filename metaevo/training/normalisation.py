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
    tasks: Sequence[tuple[Task, Hyperparams]], fitness: FitnessConfig, *, seed: int
) -> Normalisation:
    """Measure random play and the reference in every environment, through the learner's own code.

    The tasks have hand-written parts in the slots. Random play is the learner under
    `random_play()`.

    Raises:
        ValueError: if the reference is no better than random play, which leaves no scale.
    """
    keys = keys_for(seed, Purpose.NORMALISATION, SEEDS)
    bounds = []
    for task, hyperparams in tasks:
        population = Population(task, hyperparams, None, fitness, agents=2 * SEEDS)
        trained = population.train(keys, [hyperparams.random_play(), hyperparams])
        low, high = np.mean(trained.scores, axis=1)
        if not high > low:
            raise ValueError(
                f"{task.name}: the hand-written reference scores {high:.3g}, no better than "
                f"random play ({low:.3g}); train longer or choose other hyperparams"
            )
        bounds.append((float(low), float(high)))
    return Normalisation(*zip(*bounds, strict=True))
