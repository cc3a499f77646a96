"""Evaluations of the greedy policy during a training, if the fitness weighs their return."""

from metaevo.config import ConfigError
from metaevo.parts import conformance
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.task import Bound
from purerl.parts.evaluation import GreedyEvaluations, time_limit


def plan_evaluations(task: Bound, weights: FitnessConfig) -> Bound:
    """Return the task with the evaluations of a fitness.

    Raises:
        ConfigError: if episodes have no time limit, a training has fewer updates than evaluations,
            or the learner's `train` is its own and cannot evaluate.
    """
    most, count = task.learner.config.num_updates, weights.evaluations
    if count > most:
        raise ConfigError(
            f"fitness.evaluations = {count}: must be at most {most}, the updates of a training "
            f"on {task.name}"
        )
    where = f"fitness.evaluation_return = {weights.evaluation_return:g}"
    params = task.env_params if task.sample is None else task.sample.longest(task.env_params)
    if (limit := time_limit(task.learner.env, params)) is None:
        raise ConfigError(
            f"{where}: episodes of {task.name} may have no end; "
            "add `max_steps_in_episode: int` to the environment's parameters"
        )
    conformance.check_train(task.learner, where, "evaluations")
    planned = GreedyEvaluations(count, weights.evaluation_episodes, limit)
    evaluated = task._replace(evaluations=planned)
    if evaluated.frames() >= 2**31:
        raise ConfigError(
            f"fitness.evaluations = {count}: with {planned.frames:,} environment steps each, "
            "the frames of an agent must be less than 2^31"
        )
    return evaluated
