"""Evolutions that cannot run, refused before anything is allocated or compiled."""

from functools import partial
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.config.numbers import INT_LIMIT
from metaevo.evolution import devices
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.meta_gradient import MetaGradient, make_strategy
from metaevo.evolution.problem import MetaProblem, ascend
from metaevo.evolution.strategy import StrategyConfig, generations_limit


def check_evolution(
    problem: MetaProblem, strategy: StrategyConfig, config: EvolutionConfig
) -> None:
    """Find out whether a strategy and its generations fit a problem, the devices and their memory.

    Args:
        problem: of which `init` is traced and, for `meta_gradient`, its derivatives.
        strategy: its settings.
        config: how candidates are evaluated.

    Raises:
        ConfigError: naming what does not fit.
    """
    rows = strategy.population_size * config.seeds_per_candidate + config.validation_seeds
    if rows > INT_LIMIT:
        raise ConfigError(
            f"strategy.population_size x evolution.seeds_per_candidate: {rows} agents in a "
            f"generation are more than {INT_LIMIT}"
        )
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    if not jax.tree.leaves(shapes):
        raise ConfigError("nothing to evolve: init returns no parameters")
    check_population(strategy, shapes)
    solution = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    bound = make_strategy(strategy, solution)
    state = jax.eval_shape(lambda key: bound.init(key, problem.init), jax.random.key(0))
    devices.check_memory(f"strategy: {strategy.algorithm}", devices.num_bytes(state))
    if isinstance(bound, MetaGradient):
        climb = partial(ascend, problem, window=bound.window)
        try:
            jax.eval_shape(climb, jax.random.key(0), shapes)
        except (NotImplementedError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"strategy.algorithm = {strategy.algorithm!r}: has no derivatives here: {reason}"
            ) from error
    limit = generations_limit(strategy)
    if config.generations > limit:
        raise ConfigError(
            f"evolution.generations = {config.generations}: {strategy.algorithm} runs for "
            f"{limit:.0f}; set strategy.settings.num_generations"
        )
    available, wanted = len(devices.select()), config.num_devices
    if wanted is not None and wanted > available:
        raise ConfigError(f"evolution.num_devices = {wanted}: there are {available} devices")
    if wanted is not None and wanted % jax.process_count():
        raise ConfigError(
            f"evolution.num_devices = {wanted}: {jax.process_count()} processes must share them"
        )


def check_population(strategy: StrategyConfig, solution: Any) -> None:
    """Refuse a population that no memory can hold.

    Args:
        strategy: has its size.
        solution: the shapes of meta-parameters.

    Raises:
        ConfigError: naming the section.
    """
    needed = 2 * strategy.population_size * devices.num_bytes(solution)
    devices.check_memory("strategy: a population", needed)
