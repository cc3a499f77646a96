"""Agents that no memory can hold, refused before anything is allocated."""

from collections.abc import Sequence
from typing import Any

from metaevo.agents.train_learner import Task, training_bytes
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.outer_loop.strategy import StrategyConfig
from metaevo.parallel import devices
from purerl.types import Hyperparams


def check_training(
    section: str,
    task: Task,
    hyperparams: Any,
    meta_params: Any,
    *,
    kept: int,
    at_once: int,
    points: int = 0,
) -> None:
    """Refuse agents that are too large or too many.

    Args:
        section: the settings that decide how many there are.
        task: of all agents.
        hyperparams: an example.
        meta_params: an example; arrays or their shapes.
        kept: agents that are in memory together from beginning to end.
        at_once: agents that are trained at the same time.
        points: of an agent's learning curve.

    Raises:
        ConfigError: with the bytes that they need and those that there are.
    """
    state, working = training_bytes(task, hyperparams, meta_params)
    state += points * 6 * 4  # float32 sums
    devices.check_memory(f"train: a single agent in {task.name}", state + working)
    agents = max(kept, at_once)
    devices.check_memory(
        f"{section}: {agents} agents in {task.name}", agents * state + at_once * working
    )


def check_agents(
    tasks: Sequence[Task],
    hyperparams: Hyperparams,
    solution: Any,
    strategy: StrategyConfig,
    config: EvolutionConfig,
) -> None:
    """Refuse an evolution whose agents are too large or too many.

    Args:
        tasks: of a candidate.
        hyperparams: of the agents.
        solution: the shapes of meta-parameters.
        strategy: how many candidates there are.
        config: how many agents each of them trains.

    Raises:
        ConfigError: naming the section.
    """
    rows = strategy.population_size * config.seeds_per_candidate + config.validation_seeds
    num_devices = len(devices.select(config.num_devices))
    at_once = min((config.chunk_size or 1) * num_devices, rows)
    for task in tasks:
        check_training(
            "evolution",
            task,
            hyperparams,
            solution,
            kept=0,
            at_once=at_once,
            points=task.learner.config.num_updates,
        )
