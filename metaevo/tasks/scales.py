"""The scales of several tasks: scores that count as 0, random play, and as 1, the reference."""

from typing import TYPE_CHECKING

import numpy as np

from metaevo.config import ConfigError
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.runs.terminal import Progress
from metaevo.tasks.task import Scale
from metaevo.tasks.trainings import Trainings

if TYPE_CHECKING:
    from metaevo.tasks.problem import LearnerProblem

SEEDS = 16
"""Agents of random play, and of the reference, that measure the scale of a task."""


def measure_scales(problem: "LearnerProblem", *, seed: int = 0, quick: bool = False) -> list[Scale]:
    """Measure random play and the hand-written reference on each task of a problem.

    Random play is the learner under `random_play()`. In a quick look, a reference that does not
    learn counts as 1 better.

    Raises:
        ConfigError: if a reference is no better than random play, which leaves no scale.
    """
    scales, keys = [], keys_for(seed, Purpose.NORMALISATION, SEEDS)
    for name in Progress(problem.tasks, desc="measuring the scale of each task", leave=False):
        task = problem.reference(name)
        trainings = Trainings(task, None, problem.weights, agents=2 * SEEDS)
        trained = trainings.train(keys, [task.hyperparams.random_play(), task.hyperparams])
        low, high = np.mean(trained.scores, axis=1)
        if not high > low and not quick:
            raise ConfigError(
                f"tasks.{name}: the hand-written reference scores {high:.3g}, no better than "
                f"random play ({low:.3g}); train longer or choose other hyperparams"
            )
        scales.append(Scale(float(low), float(high if high > low else low + 1.0)))
    return scales
