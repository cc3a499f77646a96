"""Check evolutions before anything is allocated or compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, from_dict, show, to_dict
from metaevo.config.checks import LIMIT
from metaevo.evolution import devices
from metaevo.evolution.evosax import Evosax, refusal
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import Evaluation, MetaProblem, task_key
from metaevo.evolution.strategy import Strategy
from purerl.types import PyTree

RECORD = frozenset({
    "kind", "generation", "frames", "seconds", "candidate", "key", "fitness", "fitness_mean",
    "fitness_std", "fitness_best", "fitness_low", "fitness_high", "fitness_of_mean", "diverged",
    "tied", "sigma", "validated", "task_frames", "validation_frames",
})  # fmt: skip
"""Keys of the records of a generation or an evaluation, which no metric of a problem may have."""


def check_evolution(problem: MetaProblem, strategy: Strategy, config: EvolutionConfig) -> None:
    """Check that a strategy and its generations fit a problem, the devices and their memory."""
    check_kind(strategy)
    tasks = problem.tasks_per_generation
    if config.across_tasks != "mean" and tasks < 2:
        raise ConfigError(
            f"evolution.across_tasks = {config.across_tasks!r}: a generation has one task; needs "
            "several (tasks_per_generation)"
        )
    rows = strategy.population_size * config.seeds_per_candidate * tasks
    rows += config.validation_seeds * len(problem.tasks)
    if rows > LIMIT:
        raise ConfigError(
            f"strategy.population_size x evolution.seeds_per_candidate: {rows} agents in a "
            f"generation are more than {LIMIT}"
        )
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    check_meta_params(shapes, perturbed=strategy.perturbs)
    population_bytes = strategy.population_size * devices.num_bytes(shapes)
    devices.check_memory("strategy: a population", 2 * population_bytes)
    strategy.check(problem, config.generations)
    state = check_strategy(strategy, problem)
    devices.check_memory("strategy: its state", devices.num_bytes(state))
    wanted = config.num_devices
    devices.check_number("evolution.num_devices", wanted)
    if wanted is not None and wanted % jax.process_count():
        raise ConfigError(
            f"evolution.num_devices = {wanted}: {jax.process_count()} processes must share them"
        )


def check_kind(strategy: Any) -> None:
    """Raise `ConfigError` unless a strategy is one, with all methods and valid settings."""
    if not isinstance(strategy, Strategy):
        hint = f", such as {strategy.__name__}(), not a class" if isinstance(strategy, type) else ""
        raise ConfigError(
            f"strategy = {show(strategy)}: must be an object that derives from "
            f"metaevo.Strategy{hint}"
        )
    kind, size = type(strategy), strategy.population_size
    if type(size) is not int or size < 2:
        raise ConfigError(f"strategy.population_size = {show(size)}: must be an integer above 1")
    try:
        from_dict(kind, to_dict(strategy))
    except ConfigError as error:
        raise ConfigError(f"strategy.{error}") from None
    missing = [
        name for name in ("init", "ask", "tell", "best")
        if getattr(kind, name) is getattr(Strategy, name)
    ]  # fmt: skip
    if missing:
        raise ConfigError(f"strategy: {kind.__name__} does not define {', '.join(missing)}")


def check_strategy(strategy: Strategy, problem: MetaProblem) -> PyTree:
    """Trace a generation of a strategy without compilation; return the shapes of its state.

    Raises:
        ConfigError: if a method raises an error, or returns something of another shape.
    """
    kind, size, method = type(strategy), strategy.population_size, ""

    def rehearse(strategy, key):
        nonlocal method
        solution = problem.init(key)
        own = strategy.bind(problem)
        method = "init"
        state = own.init(key, problem.init)
        method = "ask"
        population, asked = own.ask(key, state)
        method = "tell"
        told = own.tell(key, population, Evaluation(jnp.zeros(size), {}), asked)
        method = "best"
        best = own.best(told)
        method = "candidate"
        return solution, own.candidate(population, jnp.int32(0)), state, told, best

    try:
        solution, candidate, state, told, best = jax.eval_shape(
            rehearse, strategy, jax.random.key(0)
        )
    except ConfigError:
        raise
    except Exception as error:
        if isinstance(strategy, Evosax):
            raise ConfigError(refusal(strategy, error)) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"strategy: {kind.__name__}.{method} raises {reason}") from error
    for name, found, expected in (
        ("ask", candidate, solution), ("tell", told, state), ("best", best, solution)
    ):  # fmt: skip
        if _shapes(found) != _shapes(expected):
            raise ConfigError(
                f"strategy: {kind.__name__}.{name} returns {_shapes(found)}; must be "
                f"{_shapes(expected)}" + (" for each candidate" if name == "ask" else "")
            )
    return state


def _shapes(tree: PyTree) -> PyTree:
    """Return the structure of a pytree with shapes and dtypes, for comparison and messages."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(jnp.shape(leaf))}", tree)


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
    if not isinstance(problem, MetaProblem):
        raise ConfigError(
            f"{name} = {show(problem)}: must be an object that derives from metaevo.MetaProblem, "
            "with the methods init(key) and evaluate(key, meta_params, task)"
        )
    for method in ("init", "evaluate"):
        if getattr(type(problem), method) is getattr(MetaProblem, method):
            raise ConfigError(f"{name}: {type(problem).__name__} does not define {method}")


def check_evaluation(problem: MetaProblem) -> list[str]:
    """Trace `evaluate`, and return the names of its metrics."""

    def evaluate(key):
        task = problem.draw_task(task_key(key), 0)
        return problem.evaluate(key, problem.init(key), task)

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
