"""Check evolutions before anything is allocated or compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, show
from metaevo.config.checks import LIMIT
from metaevo.evolution import devices, strategies
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import (
    Evaluation,
    MetaProblem,
    draw_task,
    fix_task,
    tasks_per_generation,
    validation_tasks,
)
from metaevo.evolution.strategy import StrategyConfig
from purerl.types import PyTree

RECORD = frozenset({
    "kind", "generation", "frames", "seconds", "candidate", "key", "fitness", "fitness_mean",
    "fitness_std", "fitness_best", "fitness_low", "fitness_high", "fitness_of_mean", "diverged",
    "tied", "sigma",
})  # fmt: skip
"""Keys of the records of a generation or an evaluation, which no metric of a problem may have."""


def check_evolution(
    problem: MetaProblem, strategy: StrategyConfig, config: EvolutionConfig
) -> None:
    """Check that a strategy and its generations fit a problem, the devices and their memory."""
    if config.across_tasks != "mean" and tasks_per_generation(problem) < 2:
        raise ConfigError(
            f"evolution.across_tasks = {config.across_tasks!r}: a generation has one task; needs "
            "several (tasks_per_generation)"
        )
    rows = strategy.population_size * config.seeds_per_candidate * tasks_per_generation(problem)
    rows += config.validation_seeds * validation_tasks(problem)
    if rows > LIMIT:
        raise ConfigError(
            f"strategy.population_size x evolution.seeds_per_candidate: {rows} agents in a "
            f"generation are more than {LIMIT}"
        )
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    check_meta_params(shapes, perturbed=strategies.perturbs(strategy))
    population_bytes = strategy.population_size * devices.num_bytes(shapes)
    devices.check_memory("strategy: a population", 2 * population_bytes)
    solution = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    bound = strategies.checked(strategy, solution, problem)
    state = jax.eval_shape(lambda key: bound.init(key, problem.init), jax.random.key(0))
    devices.check_memory(f"strategy: {strategy.algorithm}", devices.num_bytes(state))
    bound.check(problem, config.generations)
    wanted = config.num_devices
    devices.check_number("evolution.num_devices", wanted)
    if wanted is not None and wanted % jax.process_count():
        raise ConfigError(
            f"evolution.num_devices = {wanted}: {jax.process_count()} processes must share them"
        )


def check_meta_params(shapes: PyTree, *, perturbed: bool = True) -> None:
    """Raise if meta-parameters, given by their shapes, cannot be evolved."""
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    if not leaves:
        raise ConfigError("init: must return at least one array; there is nothing to evolve")
    for path, leaf in leaves if perturbed else ():
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ConfigError(
                f"init: meta-parameter {jax.tree_util.keystr(path) or 'array'} has dtype "
                f"{leaf.dtype}, and this strategy adds numbers to it: use float32 and round inside "
                "evaluate, or a strategy that doesn't (genetic_programming for programs)"
            )


def check_problem(problem: object, name: str) -> None:
    """Raise `ConfigError`, with the `name` of the argument, unless it is a `MetaProblem`."""
    methods = (getattr(problem, method, None) for method in ("init", "evaluate"))
    if isinstance(problem, type) or not all(map(callable, methods)):
        raise ConfigError(
            f"{name} = {show(problem)}: must be an object with the methods init(key) and "
            "evaluate(key, meta_params)"
        )


def check_evaluation(problem: MetaProblem) -> list[str]:
    """Trace `evaluate`, and return the names of its metrics."""

    def evaluate(key):
        meta_params, task = problem.init(key), draw_task(problem, key, 0)
        return fix_task(problem, task).evaluate(key, meta_params)

    found: Any = jax.eval_shape(evaluate, jax.random.key(0))
    if not isinstance(found, Evaluation):
        kind = type(found).__name__ if jax.tree.leaves(found) != [found] else "one array"
        raise ConfigError(
            f"evaluate: returned {kind}; it must return metaevo.Evaluation(fitness, metrics)"
        )
    if not isinstance(found.metrics, dict):
        raise ConfigError(f"evaluate: metrics = {show(found.metrics)}: must be a dict of scalars")
    if taken := sorted(RECORD & found.metrics.keys()):
        raise ConfigError(
            f"evaluate: metrics[{taken[0]!r}]: records of runs have this key; rename the metric"
        )
    scalars = {"fitness": found.fitness, **found.metrics}
    for name, value in scalars.items():
        if jnp.shape(value) != ():
            raise ConfigError(
                f"evaluate: {name} has shape {jnp.shape(value)}; must be (), a scalar"
            )
    return sorted(found.metrics)
