"""Check before allocation that memory can hold the agents."""

from collections.abc import Sequence
from typing import Any

import jax

from metaevo.evolution import devices
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.problem import MetaProblem
from metaevo.tasks.bound import Bound, training_bytes
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


def check_agents(problem: MetaProblem, tasks: Sequence[Bound], settings: Any) -> None:
    """Raise `ConfigError` if an evolution that trains agents cannot run, or has too many agents."""
    strategy, config = settings.strategy, settings.evolution
    solution = jax.eval_shape(problem.init, jax.random.key(0))
    rows = strategy.population_size * config.seeds_per_candidate + config.validation_seeds
    num_devices = len(devices.select(config.num_devices))
    at_once = min((config.chunk_size or 1) * num_devices, rows)
    for task in tasks:
        check_training(
            "evolution",
            task,
            settings.hyperparams if task.hyperparams is None else task.hyperparams,
            solution,
            kept=0,
            at_once=at_once,
            points=task.learner.config.num_updates,
        )
    check_evolution(problem, strategy.build(), config)
