"""Evaluations of the greedy policy during a training, if the fitness weighs their return."""

from metaevo.config import ConfigError
from metaevo.parts import conformance
from metaevo.tasks.fitness import FitnessConfig
from purerl.parts.evaluation import GreedyEvaluations, time_limit
from purerl.types import EnvParams, Learner


def plan_evaluations(
    name: str, learner: Learner, env_params: EnvParams, weights: FitnessConfig
) -> GreedyEvaluations:
    """Return the evaluations of a fitness in the task of this name, at its longest.

    Raises:
        ConfigError: if episodes have no time limit, a training has fewer updates than evaluations,
            or the learner's `train` is its own and cannot evaluate.
    """
    config, count = learner.config, weights.evaluations
    if count > config.num_updates:
        raise ConfigError(
            f"fitness.evaluations = {count}: must be at most {config.num_updates}, the updates of "
            f"a training on {name}"
        )
    where = f"fitness.evaluation_return = {weights.evaluation_return:g}"
    if (limit := time_limit(learner.env, env_params)) is None:
        raise ConfigError(
            f"{where}: episodes of {name} may have no end; "
            "add `max_steps_in_episode: int` to the environment's parameters"
        )
    conformance.check_train(learner, where, "evaluations")
    planned = GreedyEvaluations(count, weights.evaluation_episodes, limit)
    frames = config.num_updates * config.frames_per_update + planned.times * planned.frames
    if frames >= 2**31:
        raise ConfigError(
            f"fitness.evaluations = {count}: with {planned.frames:,} environment steps each, "
            "the frames of an agent must be less than 2^31"
        )
    return planned
