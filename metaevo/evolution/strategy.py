"""Any evosax algorithm by its name, behind one face for both of evosax's families.

Two facts of evosax are kept in this file: it minimises (the sign is flipped in `tell`, nowhere
else), and distribution-based and population-based algorithms start and end differently.
"""

import copy
import difflib
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import evosax.algorithms as evosax_algorithms
import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Gt, Interval
from evosax.algorithms import distribution_based_algorithms
from evosax.core.fitness_shaping import (
    centered_rank_fitness_shaping_fn,
    identity_fitness_shaping_fn,
    standardize_fitness_shaping_fn,
)

from metaevo.config import ConfigError

UNPICKLING = {"LES", "LGA", "EvoTF_ES", "CMAAnchoredLES"}
"""Algorithms whose learned weights evosax loads with pickle, which this project never does."""
UNSUITABLE = {"SV_CMA_ES", "SV_Open_ES", "RandomSearch"}
"""Algorithms that keep several means, so that a run would have no single result, or sample from a
distribution that a config cannot give."""
ALGORITHMS = sorted(set(evosax_algorithms.algorithms) - UNPICKLING - UNSUITABLE)
KNOWN = [*ALGORITHMS, "meta_gradient"]

OWN_SHAPING = {"DES", "SimpleES"}
"""They take the root of their weights, which others' shaping makes negative."""
FITNESS_LIMIT = 1e15
"""Beyond it, sums of squares over a population would leave float32."""

SHAPING = {
    "centered_rank": centered_rank_fitness_shaping_fn,
    "standardize": standardize_fitness_shaping_fn,
    "identity": identity_fitness_shaping_fn,
}
OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adam": optax.adam,
    "sgd": optax.sgd,
    "rmsprop": optax.rmsprop,
}


@dataclass(frozen=True)
class StrategyConfig:
    """Which evolutionary algorithm, and how it steps."""

    algorithm: str = "Open_ES"
    """any of evosax's, by its name there, or meta_gradient"""
    population_size: Annotated[int, Gt(1)] = 64
    """candidates a generation"""
    sigma: Annotated[float, Gt(0)] = 0.1
    """standard deviation of the perturbations at generation 0"""
    sigma_decay: Annotated[float, Interval(gt=0, le=1)] = 1.0
    """factor on sigma a generation (algorithms that adapt sigma only take its start)"""
    sigma_limit: Annotated[float, Gt(0)] = 1e-3
    """sigma does not decay below this"""
    optimizer: Literal["auto", "adam", "sgd", "rmsprop", "own"] = "auto"
    """of the mean; auto is adam for Open_ES and PGPE and the algorithm's own for the others"""
    learning_rate: Annotated[float, Gt(0)] = 0.05
    """of the mean, for algorithms that take an optimizer"""
    learning_rate_decay: Annotated[float, Interval(gt=0, le=1)] = 1.0
    """factor on learning_rate a generation"""
    learning_rate_limit: Annotated[float, Gt(0)] = 1e-4
    """learning_rate does not decay below this"""
    fitness_shaping: Literal["auto", "centered_rank", "standardize", "identity"] = "auto"
    """auto is the algorithm's own"""
    settings: dict[str, bool | int | float] = field(default_factory=dict)
    """more settings of the algorithm's constructor or parameters, by their names in evosax"""


class Strategy:
    """An evosax algorithm for one search space; its methods are pure."""

    by_gradient = False

    def __init__(self, config: StrategyConfig, solution: Any):
        """Build the algorithm for meta-parameters of the structure and shapes of `solution`.

        Raises:
            ConfigError: for an unknown algorithm or setting, or a value that it refuses.
        """
        self.config, self._solution = config, solution
        self.has_mean = has_mean(config)
        self.algorithm, self.params = _build(config, solution)
        try:  # traces a generation, which compiles nothing
            jax.eval_shape(self._rehearse, jax.random.key(0), solution)
        except (AssertionError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(_refusal(config, error)) from error

    def with_steps(self, sigma: Any, learning_rate: Any) -> "Strategy":
        """Return the same strategy with other step sizes, which may be traced."""
        steps: dict[str, Any] = {"sigma": sigma, "learning_rate": learning_rate}
        config = replace(self.config, **steps)
        other = copy.copy(self)
        other.algorithm, other.params = _build(config, self._solution)
        return other

    def _rehearse(self, key: jax.Array, solution: Any) -> Any:
        population, state = self.ask(key, self.init(key, lambda key: solution))
        return self.tell(key, population, jnp.zeros(self.config.population_size), state)

    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], Any]) -> Any:
        """Return the state before generation 0.

        With a mean it starts at `init_solution(key)`; a population-based algorithm begins with
        `vmap(init_solution)` as its first population.
        """
        solution_key, state_key = jax.random.split(key)
        if self.has_mean:
            mean = init_solution(solution_key)
            state = self.algorithm.init(state_key, mean, self.params)
        else:
            keys = jax.random.split(solution_key, self.config.population_size)
            population = jax.vmap(init_solution)(keys)
            unknown = jnp.zeros(self.config.population_size)
            state = self.algorithm.init(state_key, population, unknown, self.params)
            # Told after generation 0; worse than anything until then, or it would stay.
            worst = {
                name: jnp.full_like(getattr(state, name), jnp.inf)
                for name in ("fitness", "fitness_best", "best_fitness")
                if hasattr(state, name)
            }
            state = state.replace(**worst)
        # Python scalars in evosax's fresh states would change type in the first generation.
        return jax.tree.map(jnp.asarray, state)

    def ask(self, key: jax.Array, state: Any) -> tuple[Any, Any]:
        """Return the population, a pytree with a leading axis [population_size], and the state."""
        population, asked = self.algorithm.ask(key, state, self.params)
        if not self.has_mean:  # the first population is evaluated as it was initialised
            start = state.generation_counter == 0
            first = self.algorithm.get_population(state)
            population = jax.tree.map(lambda a, b: jnp.where(start, a, b), first, population)
        return population, asked

    def tell(self, key: jax.Array, population: Any, fitness: jax.Array, state: Any) -> Any:
        """Return the state after a generation.

        A failed candidate (fitness not finite) gets a fitness below all others. When all are tied
        there is nothing to learn, yet some algorithms would drift: only the generation advances.

        Args:
            key: for algorithms with a random update.
            population: as asked.
            fitness: [population_size], higher is better.
            state: as returned by `ask`.
        """
        fitness = _with_worst_for_failed(fitness)
        told, _ = self.algorithm.tell(key, population, -fitness, state, self.params)
        told = jax.tree.map(lambda new, old: new.astype(old.dtype), told, state)
        tied = jnp.max(fitness) == jnp.min(fitness)
        if not self.has_mean:  # its first population must still get a fitness
            tied = jnp.logical_and(tied, state.generation_counter > 0)
        kept = state.replace(generation_counter=told.generation_counter)
        if hasattr(state, "opt_state"):  # learning-rate schedules count generations
            kept = kept.replace(opt_state=_with_counts_of(told.opt_state, state.opt_state))
        state = jax.tree.map(lambda new, old: jnp.where(tied, old, new), told, kept)
        if hasattr(self.algorithm, "std_schedule"):  # evosax is a generation late, and ties would
            std = self.algorithm.std_schedule(state.generation_counter)  # hold the schedule up
            state = state.replace(std=jnp.asarray(std, state.std.dtype))
        return state

    def best(self, state: Any) -> Any:
        """Return the mean, or the best of the last population where there is no mean."""
        if self.has_mean:
            return self.algorithm.get_mean(state)
        return self.algorithm.get_best_solution(state)

    def sigma(self, state: Any) -> jax.Array:
        """Return the mean standard deviation of the perturbations, NaN where there is none."""
        return jnp.mean(jnp.asarray(getattr(state, "std", jnp.nan), jnp.float32))


def _build(config: StrategyConfig, solution: Any) -> tuple[Any, Any]:
    name = config.algorithm
    if name not in ALGORITHMS:
        close = difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(KNOWN)}"
        reason = "loads a pickle, which is unsafe" if name in UNPICKLING else "is not known"
        raise ConfigError(f"strategy.algorithm = {name!r} {reason}; {hint}")
    cls = evosax_algorithms.algorithms[name]  # some keys are not the names of their classes
    signature = inspect.signature(cls).parameters
    constructor = {
        key
        for key, parameter in signature.items()
        if isinstance(parameter.default, bool | int | float | type(None))
    }
    kwargs: dict[str, Any] = {
        key: value for key, value in config.settings.items() if key in constructor
    }
    if "optimizer" in signature and (optimizer := _optimizer(config)) is not None:
        kwargs["optimizer"] = optimizer
    if "std_schedule" in signature:
        kwargs["std_schedule"] = decay(config.sigma, config.sigma_decay, config.sigma_limit)
    if (shaping := _shaping(config)) is not None:
        kwargs["fitness_shaping_fn"] = shaping
    try:
        algorithm = cls(population_size=config.population_size, solution=solution, **kwargs)
        params = algorithm.default_params
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(_refusal(config, error)) from error

    values = {key: getattr(params, key) for key in params.__dataclass_fields__}
    scalars = {key for key, value in values.items() if jnp.ndim(value) == 0}
    overrides = {"std_init": config.sigma} if "std_init" in scalars else {}
    for key, value in config.settings.items():
        if key in constructor:
            continue
        if key not in scalars:
            allowed = ", ".join(sorted(constructor | scalars)) or "none"
            raise ConfigError(
                f"strategy.settings: {name} has no setting {key!r}; allowed: {allowed}"
            )
        overrides[key] = value
    return algorithm, params.replace(**overrides)


def _refusal(config: StrategyConfig, error: Exception) -> str:
    return (
        f"strategy: {config.algorithm} refuses population_size = {config.population_size} "
        f"with settings {config.settings}: {error}"
    )


def _optimizer(config: StrategyConfig) -> optax.GradientTransformation | None:
    name = config.optimizer
    if name == "auto":
        name = "adam" if config.algorithm in {"Open_ES", "PGPE"} else "own"
    if name == "own":
        return None
    schedule = decay(config.learning_rate, config.learning_rate_decay, config.learning_rate_limit)
    return OPTIMIZERS[name](schedule)


def _shaping(config: StrategyConfig) -> Callable | None:
    if config.fitness_shaping != "auto":
        if config.algorithm in OWN_SHAPING:
            raise ConfigError(
                f"strategy.fitness_shaping = {config.fitness_shaping!r}: {config.algorithm} needs "
                "weights that are not negative, as its own shaping makes them; allowed: auto"
            )
        return SHAPING[config.fitness_shaping]
    # Diffusion Evolution exponentiates the fitness, which therefore needs a scale of its own.
    return standardize_fitness_shaping_fn if config.algorithm == "DiffusionEvolution" else None


def decay(start: Any, factor: float, limit: float) -> Callable[[Any], jax.Array]:
    """Return a geometric schedule of the absolute generation; no total number of them is in it."""

    def schedule(generation):
        return jnp.maximum(start * jnp.power(factor, generation), jnp.minimum(limit, start))

    return schedule


def _with_worst_for_failed(fitness: jax.Array) -> jax.Array:
    finite = jnp.isfinite(fitness)
    fitness = jnp.clip(fitness, -FITNESS_LIMIT, FITNESS_LIMIT)
    low = jnp.min(jnp.where(finite, fitness, jnp.inf))
    high = jnp.max(jnp.where(finite, fitness, -jnp.inf))
    worst = low - (0.1 * (high - low) + 1e-3 * jnp.abs(low) + 1e-6)
    return jnp.where(finite, fitness, jnp.where(jnp.any(finite), worst, 0.0))


def _with_counts_of(new: Any, old: Any) -> Any:
    """Return the old optimizer state with the step counts of the new one."""

    def choose(new_leaf, old_leaf):
        return new_leaf if jnp.issubdtype(jnp.result_type(new_leaf), jnp.integer) else old_leaf

    return jax.tree.map(choose, new, old)


def has_mean(config: StrategyConfig) -> bool:
    """Whether the algorithm has a mean, which is then what a run has found."""
    return config.algorithm in {*distribution_based_algorithms, "meta_gradient"}


def generations_limit(config: StrategyConfig) -> float:
    """Return how many generations the algorithm can run; only Diffusion Evolution ends."""
    if config.algorithm != "DiffusionEvolution":
        return math.inf
    default = inspect.signature(evosax_algorithms.DiffusionEvolution).parameters["num_generations"]
    return int(np.asarray(config.settings.get("num_generations", default.default)))
