"""Check before allocation that memory can hold the agents."""

import jax

from metaevo.evolution import devices
from metaevo.evolution.loop import EvolutionConfig
from metaevo.tasks.bound import Bound, training_bytes
from metaevo.tasks.problem import LearnerProblem
from purerl.types import Hyperparams, MetaParams


def check_training(
    section: str,
    task: Bound,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    *,
    kept: int,
    at_once: int,
    points: int = 0,
) -> None:
    """Raise `ConfigError` if agents are too large or too many.

    The settings in `section` decide that `kept` agents are in memory from beginning to end, and
    `at_once` trained at the same time; each learning curve has so many `points`.
    """
    found = training_bytes(task, hyperparams, meta_params)
    state = found.state + points * 6 * 4  # float32 sums
    devices.check_memory(f"train: a single agent in {task.name}", state + found.working)
    agents = max(kept, at_once)
    devices.check_memory(
        f"{section}: {agents} agents in {task.name}", agents * state + at_once * found.working
    )


def check_agents(problem: LearnerProblem, population_size: int, config: EvolutionConfig) -> None:
    """Raise `ConfigError` if an evolution has too many agents, or too large ones."""
    solution = jax.eval_shape(problem.init, jax.random.key(0))
    rows = population_size * config.seeds_per_candidate + config.validation_seeds
    num_devices = len(devices.select(config.num_devices))
    at_once = min((config.chunk_size or 1) * num_devices, rows)
    for task in problem.bound:
        points = task.learner.config.num_updates
        check_training(
            "evolution", task, task.hyperparams, solution, kept=0, at_once=at_once, points=points
        )
