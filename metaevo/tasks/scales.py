"""The scales of several tasks: scores that count as 0, random play, and as 1, the reference."""

from collections.abc import Callable
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


def measure_scales(
    problem: "LearnerProblem",
    *,
    seed: int = 0,
    quick: bool = False,
    check_stop: Callable[[], None] = lambda: None,
) -> list[Scale]:
    """Measure random play and the hand-written reference on each task of a problem.

    Random play is the learner under `random_play()`. In a quick look, a reference that does not
    learn counts as 1 better. `check_stop` is called after each chunk of agents; it raises to stop.

    Raises:
        ConfigError: if a reference is no better than random play, which leaves no scale.
    """
    scales, keys = [], keys_for(seed, Purpose.NORMALISATION, SEEDS)
    programs = {
        name: Trainings(problem.reference(name), None, problem.weights, agents=2 * SEEDS)
        for name in problem.tasks
    }
    total = 2 * SEEDS * sum(each.frames for each in programs.values())
    with Progress(
        total=total, unit="frame", unit_scale=True, leave=False, check_stop=check_stop
    ) as bar:
        for name, trainings in programs.items():
            bar.stage(f"measuring the scale of {name}")
            own = trainings.task.hyperparams
            trained = trainings.train(keys, [own.random_play(), own], progress=bar.update)
            low, high = np.mean(trained.scores, axis=1).tolist()
            if not high > low and not quick:
                raise ConfigError(
                    f"tasks.{name}: the hand-written reference scores {high:.3g}, no better than "
                    f"random play ({low:.3g}); train longer or choose other hyperparams"
                )
            scales.append(Scale(low, high if high > low else low + 1.0))
    return scales
