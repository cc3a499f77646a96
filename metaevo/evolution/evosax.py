"""Any evosax algorithm, selected by name, as a `Strategy`.

This file hides two properties of evosax: it minimises (the sign is flipped only in `tell`), and
distribution-based and population-based algorithms start and end differently.
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Gt, Interval

from metaevo.config import ConfigError, PlainDict, failure, is_name, of_value, show
from metaevo.config.references import Kind, resolve
from metaevo.evolution.problem import Evaluation, MetaProblem
from metaevo.evolution.strategy import Strategy
from purerl.types import PyTree

UNPICKLING = {"LES", "LGA", "EvoTF_ES", "CMAAnchoredLES"}
"""Excluded: evosax unpickles their learned weights, and this project never unpickles files."""
UNSUITABLE = {"SV_CMA_ES", "SV_Open_ES", "RandomSearch"}
"""Algorithms that keep several means, so that a run would have no single result, or sample from a
distribution that a config cannot give."""

GENETIC_PROGRAMMING = "genetic_programming"
LOW_RANK = "low_rank_es"
OWN = {
    GENETIC_PROGRAMMING: "metaevo.evolution.genetic:GeneticProgramming",
    LOW_RANK: "metaevo.evolution.low_rank:LowRankES",
}
"""Classes of the algorithms that are not of evosax, imported when they are used."""


def _no_strategy(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Strategy):
        return ""
    return "must be a class that derives from metaevo.Strategy"


STRATEGY = Kind("strategy.algorithm", "class that derives from metaevo.Strategy", _no_strategy, OWN)
OWN_SHAPING = {"DES", "SimpleES"}
"""Algorithms that take the square root of their weights, which other shaping makes negative."""


class CommonSettings(Strategy):
    """Settings of evosax's algorithms, and of `low_rank_es`."""

    algorithm: str = "Open_ES"
    """any of evosax's, by its name there, low_rank_es, genetic_programming, or a strategy of your
    own as FILE.py:CLASS or MODULE:CLASS"""
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


class StrategyConfig(CommonSettings):
    """The section `strategy`: an algorithm of evosax, or by its name any other strategy.

    Examples:
        >>> strategy = metaevo.StrategyConfig(algorithm="SNES", population_size=8)
        >>> found = metaevo.evolve(problem, strategy=strategy)
    """

    settings: dict[str, bool | int | float] = dataclasses.field(default_factory=dict)
    """more settings of the algorithm's constructor or parameters, by their names there"""
    core: ClassVar[Any] = None
    """of a bound strategy: the algorithm of evosax"""
    params: ClassVar[Any] = None
    """of a bound strategy: the algorithm's parameters"""

    @property
    def has_mean(self) -> bool:  # type: ignore[override]
        """Whether the algorithm is distribution-based."""
        from evosax.algorithms import distribution_based_algorithms

        return self.algorithm in distribution_based_algorithms

    def bind(self, problem: MetaProblem) -> Self:
        """Return the strategy with the algorithm for the meta-parameters of a problem."""
        shapes = jax.eval_shape(problem.init, jax.random.key(0))
        solution = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        bound = copy.copy(self)
        for name, value in zip(("core", "params"), _build(self, solution), strict=True):
            object.__setattr__(bound, name, value)
        return bound

    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], Any]) -> PyTree:
        """Return the state before generation 0.

        With a mean it starts at `init_solution(key)`; a population-based algorithm begins with
        `vmap(init_solution)` as its first population.
        """
        solution_key, state_key = jax.random.split(key)
        if self.has_mean:
            mean = init_solution(solution_key)
            state = self.core.init(state_key, mean, self.params)
        else:
            keys = jax.random.split(solution_key, self.population_size)
            population = jax.vmap(init_solution)(keys)
            unknown = jnp.zeros(self.population_size)
            state = self.core.init(state_key, population, unknown, self.params)
            # Told after generation 0; worse than anything until then, or it would stay.
            worst = {
                name: jnp.full_like(getattr(state, name), jnp.inf)
                for name in ("fitness", "fitness_best", "best_fitness")
                if hasattr(state, name)
            }
            state = state.replace(**worst)
        # Python scalars in evosax's fresh states would change type in the first generation.
        return jax.tree.map(jnp.asarray, state)

    def ask(self, key: jax.Array, state: PyTree) -> tuple[PyTree, PyTree]:
        """Return the population, a pytree with a leading axis [population_size], and the state."""
        population, asked = self.core.ask(key, state, self.params)
        if not self.has_mean:  # the first population is evaluated as it was initialised
            start = state.generation_counter == 0
            first = self.core.get_population(state)
            population = jax.tree.map(lambda a, b: jnp.where(start, a, b), first, population)
        return population, asked

    def tell(
        self, key: jax.Array, population: PyTree, evaluation: Evaluation, state: PyTree
    ) -> PyTree:
        """Return the state after a generation.

        If all candidates are tied, only the generation advances, because some algorithms would
        otherwise drift.
        """
        fitness = evaluation.fitness
        told, _ = self.core.tell(key, population, -fitness, state, self.params)
        told = jax.tree.map(lambda new, old: new.astype(old.dtype), told, state)
        tied = jnp.max(fitness) == jnp.min(fitness)
        if not self.has_mean:  # its first population must still get a fitness
            tied = jnp.logical_and(tied, state.generation_counter > 0)
        kept = state.replace(generation_counter=told.generation_counter)
        if hasattr(state, "opt_state"):  # learning-rate schedules count generations
            counted = jax.tree.map(
                lambda new, old: new if jnp.issubdtype(jnp.result_type(new), jnp.integer) else old,
                told.opt_state,
                state.opt_state,
            )
            kept = kept.replace(opt_state=counted)
        state = jax.tree.map(lambda new, old: jnp.where(tied, old, new), told, kept)
        if hasattr(self.core, "std_schedule"):  # evosax is a generation late, and ties would
            std = self.core.std_schedule(state.generation_counter)  # hold the schedule up
            state = state.replace(std=jnp.asarray(std, state.std.dtype))
        return state

    def best(self, state: PyTree) -> PyTree:
        """Return the mean, or the best of the last population for algorithms without a mean."""
        if self.has_mean:
            return self.core.get_mean(state)
        return self.core.get_best_solution(state)

    def current_sigma(self, state: PyTree) -> jax.Array:
        """Return the mean standard deviation of the perturbations, or NaN if undefined."""
        return jnp.mean(jnp.asarray(getattr(state, "std", jnp.nan), jnp.float32))

    def check(self, problem: MetaProblem, generations: int) -> None:
        """Raise `ConfigError` for too many generations: Diffusion Evolution plans a number."""
        limit = getattr(self.bind(problem).core, "num_generations", generations)
        if generations > limit:
            raise ConfigError(
                f"evolution.generations = {generations}: {self.algorithm} runs for "
                f"{limit:.0f}; set strategy.settings.num_generations"
            )

    def build(self) -> Strategy:
        """Return the strategy; raises `ConfigError` if a class of another one lacks a setting."""
        name = self.algorithm
        if name not in OWN and not is_name(name):
            return self
        kind = resolve(STRATEGY, name)
        own, known = ({each.name for each in dataclasses.fields(each)} for each in (kind, self))
        _check_settings(kind.__name__, self.settings, own)
        try:
            return kind(**{key: getattr(self, key) for key in own & known} | self.settings)
        except Exception as error:
            what = f"{STRATEGY.key} = {show(name)}: cannot be made with its settings"
            raise failure(what, error) from error


class OpenES(StrategyConfig):
    """OpenAI's evolution strategy (Salimans et al. 2017), with Adam and centred ranks.

    Its arguments are the settings of the section `strategy`.

    Examples:
        >>> found = metaevo.evolve(problem, strategy=metaevo.OpenES(population_size=8, sigma=0.2))
    """


def algorithms() -> dict[str, Any]:
    """Return those of evosax by their names; imported here, because settings do not need them."""
    from evosax.algorithms import algorithms

    excluded = UNPICKLING | UNSUITABLE
    return {name: each for name, each in algorithms.items() if name not in excluded}


def _build(config: StrategyConfig, solution: PyTree) -> tuple[PyTree, PyTree]:
    """Return the algorithm for solutions like the given one, and its parameters."""
    name, usable = config.algorithm, algorithms()
    if name in OWN:
        raise ConfigError(f"strategy.algorithm = {name!r}: take what `build()` returns")
    if name not in usable:
        known = [*sorted(usable), *OWN]
        reason = "loads a pickle, which is unsafe" if name in UNPICKLING else "is not known"
        raise ConfigError(
            f"strategy.algorithm = {name!r} {reason}{of_value(name, known)}; known: "
            f"{', '.join(known)}, or FILE.py:CLASS or MODULE:CLASS"
        )
    cls = usable[name]  # some keys are not the names of their classes
    signature = inspect.signature(cls).parameters
    constructor = {
        key
        for key, parameter in signature.items()
        if isinstance(parameter.default, bool | int | float | type(None))
    }
    kwargs: PlainDict = {key: value for key, value in config.settings.items() if key in constructor}
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
        size, settings = config.population_size, dict(config.settings)
        what = f"strategy: {name} refuses population_size = {size} with settings {settings}"
        raise failure(what, error) from error

    values = {key: getattr(params, key) for key in params.__dataclass_fields__}
    scalars = {key for key, value in values.items() if jnp.ndim(value) == 0}
    _check_settings(name, config.settings, constructor | scalars)
    overrides: PlainDict = {"std_init": config.sigma} if "std_init" in scalars else {}
    overrides |= {key: config.settings[key] for key in config.settings.keys() - constructor}
    return algorithm, params.replace(**overrides)


def _check_settings(name: str, given: PlainDict, known: set[str]) -> None:
    if unknown := sorted(given.keys() - known):
        allowed = ", ".join(sorted(known)) or "none"
        raise ConfigError(
            f"strategy.settings: {name} has no setting {unknown[0]!r}; allowed: {allowed}"
        )


def _optimizer(config: StrategyConfig) -> optax.GradientTransformation | None:
    name = config.optimizer
    if name == "auto":
        name = "adam" if config.algorithm in {"Open_ES", "PGPE"} else "own"
    if name == "own":
        return None
    schedule = decay(config.learning_rate, config.learning_rate_decay, config.learning_rate_limit)
    optimizer: optax.GradientTransformation = getattr(optax, name)(schedule)
    return optimizer


def _shaping(config: StrategyConfig) -> Callable | None:
    """Return the function that shapes the fitness; None for the algorithm's own."""
    from evosax.core import fitness_shaping

    name = config.fitness_shaping
    if name != "auto" and config.algorithm in OWN_SHAPING:
        raise ConfigError(
            f"strategy.fitness_shaping = {name!r}: {config.algorithm} needs weights that are not "
            "negative, as its own shaping makes them; allowed: auto"
        )
    if config.algorithm == "DiffusionEvolution" and name == "auto":
        name = "standardize"  # it exponentiates the fitness
    return None if name == "auto" else getattr(fitness_shaping, f"{name}_fitness_shaping_fn")


def decay(start: Any, factor: float, limit: float) -> Callable[[Any], jax.Array]:
    """Return a geometric schedule of the absolute generation, independent of the total number."""

    def schedule(generation):
        return jnp.maximum(start * jnp.power(factor, generation), jnp.minimum(limit, start))

    return schedule
