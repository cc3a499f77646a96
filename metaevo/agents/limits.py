"""What no device can represent and no memory can hold, refused before anything is allocated."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from metaevo.agents.train_learner import Task, num_bytes, training_bytes
from metaevo.config import ConfigError, flatten, show, to_dict
from metaevo.outer_loop.strategy import Strategy, StrategyConfig
from metaevo.parallel import devices

INT_LIMIT = 2**31 - 1
"""Counters and indices are int32 on the devices."""
WIDER = ("run.seed",)
"""Settings with a wider range of their own."""
SMALLEST, LARGEST = (float(each) for each in (np.finfo("f4").tiny, np.finfo("f4").max))
"""Of the finite numbers in float32, as the devices compute with them, but 0."""


def check_numbers(settings: Any) -> None:
    """Refuse numbers that would become others on a device: the `__post_init__` of all settings.

    Raises:
        ValueError: naming the first one.
    """
    for key, value in flatten(to_dict(settings)).items():
        for number in _numbers(value):
            where = f"{key} = {show(number)}"
            if isinstance(number, int):
                if abs(number) > INT_LIMIT and key not in WIDER:
                    raise ValueError(f"{where}: must be at most {INT_LIMIT} in size")
            elif number != number:
                raise ValueError(f"{where}: must be a number")
            elif number and np.isfinite(number) and not SMALLEST <= abs(number) <= LARGEST:
                raise ValueError(
                    f"{where}: must be 0 or {SMALLEST:.3g} to {LARGEST:.3g} in size (float32)"
                )


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value


def check_memory(what: str, needed: int) -> None:
    """Refuse what needs more memory than there is at all; `needed` is a lower bound in bytes.

    Raises:
        ConfigError: with both numbers.
    """
    present = devices.memory_bytes()
    if present is not None and needed > present:
        raise ConfigError(
            f"{what} would take {needed / 2**30:,.1f} GiB of memory at least; "
            f"there are {present / 2**30:,.1f}"
        )


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
    check_memory(f"train: a single agent in {task.name}", state + working)
    agents = max(kept, at_once)
    check_memory(f"{section}: {agents} agents in {task.name}", agents * state + at_once * working)


def check_population(strategy: StrategyConfig, solution: Any) -> None:
    """Refuse a population that cannot be, before even one of its members is allocated.

    Args:
        strategy: has its size.
        solution: the shapes of meta-parameters.

    Raises:
        ConfigError: naming the section.
    """
    check_memory("strategy: a population", 2 * strategy.population_size * num_bytes(solution))


def check_evolution(settings: Any, tasks: Sequence[Task], solution: Any) -> None:
    """Refuse populations, and agents, that cannot be.

    Args:
        settings: an instance of `experiment_class(...)`.
        tasks: of a candidate.
        solution: the shapes of meta-parameters.

    Raises:
        ConfigError: naming the section.
    """
    strategy, config = settings.strategy, settings.evolution
    rows = strategy.population_size * config.seeds_per_candidate + config.validation_seeds
    if rows > INT_LIMIT:
        raise ConfigError(
            f"strategy.population_size x evolution.seeds_per_candidate: {rows} agents in a "
            f"generation are more than {INT_LIMIT}"
        )
    check_population(strategy, solution)
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


def check_state(strategy: Strategy, init: Callable[[jax.Array], Any]) -> None:
    """Refuse a strategy whose own state cannot be: some keep a matrix of all pairs of parameters.

    Raises:
        ConfigError: naming the algorithm.
    """
    state = jax.eval_shape(lambda key: strategy.init(key, init), jax.random.key(0))
    check_memory(f"strategy: {strategy.config.algorithm}", num_bytes(state))
