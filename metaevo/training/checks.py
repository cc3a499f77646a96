"""Agents that no memory can hold, refused before anything is allocated."""

from collections.abc import Sequence
from typing import Protocol

import jax

from metaevo.evolution import devices
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import MetaProblem
from metaevo.evolution.strategy import StrategyConfig
from metaevo.training.train_learner import Task, training_bytes
from purerl.types import Hyperparams, MetaParams


class Evolves(Protocol):
    """Settings of such an evolution."""

    @property
    def hyperparams(self) -> Hyperparams:
        """Of the agents."""

    @property
    def strategy(self) -> StrategyConfig:
        """The algorithm."""

    @property
    def evolution(self) -> EvolutionConfig:
        """Settings of the evaluation of candidates."""


def check_training(
    section: str,
    task: Task,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
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
        ConfigError: with the required and the available bytes.
    """
    state, working = training_bytes(task, hyperparams, meta_params)
    state += points * 6 * 4  # float32 sums
    devices.check_memory(f"train: a single agent in {task.name}", state + working)
    agents = max(kept, at_once)
    devices.check_memory(
        f"{section}: {agents} agents in {task.name}", agents * state + at_once * working
    )


def check_agents(problem: MetaProblem, tasks: Sequence[Task], settings: Evolves) -> None:
    """Raise an error if an evolution that trains agents cannot run, or has too many agents.

    Args:
        problem: the evolved parts and their evaluation.
        tasks: of a candidate.
        settings: the number of candidates, and the number of agents that each candidate trains.

    Raises:
        ConfigError: naming the section.
    """
    strategy, config = settings.strategy, settings.evolution
    solution = jax.eval_shape(problem.init, jax.random.key(0))
    rows = strategy.population_size * config.seeds_per_candidate + config.validation_seeds
    num_devices = len(devices.select(config.num_devices))
    at_once = min((config.chunk_size or 1) * num_devices, rows)
    for task in tasks:
        check_training(
            "evolution",
            task,
            settings.hyperparams,
            solution,
            kept=0,
            at_once=at_once,
            points=task.learner.config.num_updates,
        )
    check_evolution(problem, strategy, config)
