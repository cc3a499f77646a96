"""`Strategy`, base class of algorithms that propose candidates; see examples/random_search.py."""

import dataclasses
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Self,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import jax
import jax.numpy as jnp
from annotated_types import Gt

from metaevo.config import ConfigError, PlainDict, failure, from_dict, show, to_dict
from metaevo.config.checks import LIMIT
from metaevo.evolution import devices
from metaevo.evolution.problem import (
    Evaluation,
    MetaParams,
    MetaProblem,
    check_meta_params,
    outline,
)
from purerl.types import PyTree

if TYPE_CHECKING:
    from metaevo.evolution.loop import EvolutionConfig

FITNESS_LIMIT = 1e15
"""Limit of |fitness|, beyond which sums of squares over a population could overflow float32."""


@dataclasses.dataclass(frozen=True)
class _Static:
    """Values of fields that are compiled in; equal if they print alike."""

    values: tuple[Any, ...] = dataclasses.field(compare=False)
    text: str


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Strategy:
    """Algorithm that proposes candidates and learns from their evaluation.

    A subclass becomes a frozen dataclass and a pytree: its fields are its settings. Numbers with
    the annotation `float` are traced, so that another value does not compile again; all other
    fields are static. All methods but `bind` and `check` are pure and traced; `init`, `ask`,
    `tell` and `best` are to be written.

    Examples:
        >>> class Keeps(metaevo.Strategy):  # the best of all populations drawn by `init`
        ...     def init(self, key, init_solution):
        ...         return init_solution(key), -jnp.inf
        ...
        ...     def ask(self, key, state):
        ...         keys = jax.random.split(key, self.population_size)
        ...         return jax.vmap(problem.init)(keys), state
        ...
        ...     def tell(self, key, population, evaluation, state):
        ...         at = evaluation.fitness.argmax()
        ...         new = jax.tree.map(lambda leaf: leaf[at], population), evaluation.fitness[at]
        ...         return jax.tree.map(lambda a, b: jnp.where(new[1] > state[1], a, b), new, state)
        ...
        ...     def best(self, state):
        ...         return state[0]
        >>> found = metaevo.evolve(problem, strategy=Keeps(population_size=8))
    """

    population_size: Annotated[int, Gt(1)] = 64
    """candidates per generation"""
    has_mean: ClassVar[bool] = False
    """whether `best` is a mean, and so the result of a run; otherwise the result is the `best` of
    any generation that scored highest on the validation keys"""
    perturbs: ClassVar[bool] = True
    """whether it adds numbers to meta-parameters, which must then be floating-point; otherwise they
    may be integers, as programs are"""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True)(cls)
        _register(cls)

    def bind(self, problem: MetaProblem) -> Self:
        """Return the strategy for a problem; called inside of the compiled generation."""
        del problem
        return self

    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], MetaParams]) -> PyTree:
        """Return the state before generation 0, a pytree of arrays.

        Args:
            key: source of all randomness in this call.
            init_solution: returns one point of the search space for a key.
        """
        raise NotImplementedError

    def ask(self, key: jax.Array, state: PyTree) -> tuple[Any, PyTree]:
        """Return the candidates, a pytree with a leading axis [population_size], and the state."""
        raise NotImplementedError

    def candidate(self, asked: PyTree, index: jax.Array) -> MetaParams:
        """Return the meta-parameters of one candidate; by default a row of what `ask` returns.

        A strategy that overrides it need not store the whole population.
        """
        return jax.tree.map(lambda leaf: leaf[index], asked)

    def tell(
        self, key: jax.Array, population: PyTree, evaluation: Evaluation, state: PyTree
    ) -> PyTree:
        """Return the state after a generation.

        Args:
            key: source of all randomness in this call.
            population: as returned by `ask`.
            evaluation: means over the seeds of each candidate. `fitness` [population_size] is
                finite, higher is better; failed candidates have the lowest.
            state: as returned by `ask`.
        """
        raise NotImplementedError

    def best(self, state: PyTree) -> MetaParams:
        """Return the candidate that would be chosen now; it is evaluated on the validation keys."""
        raise NotImplementedError

    def current_sigma(self, state: PyTree) -> jax.Array:
        """Return the mean standard deviation of the perturbations, for plots; by default NaN."""
        return jnp.float32(jnp.nan)

    def others(self, state: PyTree) -> list[PlainDict]:
        """Return other results than the best for the report, as rows of a table; by default none.

        Rows with `length` and `score` are also drawn. The state is on the host.
        """
        return []

    def check(self, problem: MetaProblem, generations: int) -> None:
        """Raise `ConfigError` if the strategy cannot evolve the problem for that long."""
        return


def _register(cls: type[Strategy]) -> None:
    """Make a dataclass a pytree whose children are its floats."""
    hints = get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls)]
    traced = [name for name in names if float in (hints[name], *get_args(hints[name])[:1])]
    static = [name for name in names if name not in traced]

    def flatten(strategy: Strategy) -> tuple[Any, _Static]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(strategy, name)) for name in traced]
        values = tuple(getattr(strategy, name) for name in static)
        return children, _Static(values, repr(values))

    def unflatten(aux: _Static, children: Any) -> Strategy:
        strategy = object.__new__(cls)
        for name, value in zip((*traced, *static), (*children, *aux.values), strict=True):
            object.__setattr__(strategy, name, value)
        return strategy

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)


def check_evolution(problem: MetaProblem, strategy: Strategy, config: "EvolutionConfig") -> None:
    """Raise `ConfigError` unless a strategy and its generations fit a problem and the devices."""
    tasks = problem.tasks_per_generation
    if config.across_tasks != "mean" and tasks < 2:
        raise ConfigError(
            f"evolution.across_tasks = {config.across_tasks!r}: a generation has one task; needs "
            "several (tasks_per_generation)"
        )
    check_strategy(strategy, problem, config.generations)
    agents = strategy.population_size * config.seeds_per_candidate * tasks
    agents += config.validation_seeds * len(problem.tasks)
    if agents > LIMIT:
        raise ConfigError(
            f"strategy.population_size x evolution.seeds_per_candidate: {agents} agents in a "
            f"generation are more than {LIMIT}"
        )
    wanted = config.num_devices
    devices.check_number("evolution.num_devices", wanted)
    if wanted is not None and wanted % jax.process_count():
        raise ConfigError(
            f"evolution.num_devices = {wanted}: {jax.process_count()} processes must share them"
        )


def check_strategy(strategy: Strategy, problem: MetaProblem, generations: int) -> None:
    """Check a strategy, and trace one of its generations without compilation.

    Raises:
        ConfigError: if a setting is invalid, or a method is missing, raises an error or returns
            something of another shape, or memory does not suffice.
    """
    kind, size, method = type(strategy), strategy.population_size, ""
    if type(size) is not int or size < 2:
        raise ConfigError(f"strategy.population_size = {show(size)}: must be an integer above 1")
    try:
        from_dict(kind, to_dict(strategy))
    except ConfigError as error:
        raise ConfigError(f"strategy.{error}") from None
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    check_meta_params(shapes, perturbed=strategy.perturbs)
    if kind.candidate is Strategy.candidate:
        devices.check_memory("strategy: a population", 2 * size * devices.num_bytes(shapes))
    needed = "init", "ask", "tell", "best"
    if missing := [name for name in needed if getattr(kind, name) is getattr(Strategy, name)]:
        raise ConfigError(f"strategy: {kind.__name__} does not define {', '.join(missing)}")
    strategy.check(problem, generations)

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
        return state, {
            "ask": (own.candidate(population, jnp.int32(0)), solution),
            "tell": (told, state),
            "best": (best, solution),
        }

    try:
        state, results = jax.eval_shape(rehearse, strategy, jax.random.key(0))
    except ConfigError:
        raise
    except Exception as error:
        where = f"strategy: {kind.__name__}.{method} raises, with {to_dict(strategy)}"
        raise failure(where, error) from error
    for name in ("ask", "tell", "best"):
        found, wanted = map(outline, results[name])
        if found != wanted:
            raise ConfigError(
                f"strategy: {kind.__name__}.{name} returns {found}; must be {wanted}"
                + (" for each candidate" if name == "ask" else "")
            )
    devices.check_memory("strategy: its state", devices.num_bytes(state))


def across_tasks(kind: str, scores: jax.Array) -> jax.Array:
    """Return the fitness [candidates] of scores [tasks, candidates]; NaN if any is not finite.

    It is the mean of the scores or of their ranks within the tasks, in [0, 1], where equal scores
    share a rank.
    """
    failed = ~jnp.all(jnp.isfinite(scores), axis=0)
    if kind == "rank":
        scores = jnp.where(jnp.isfinite(scores), scores, -jnp.inf)
        scores = (jax.scipy.stats.rankdata(scores, axis=1) - 1.0) / (scores.shape[1] - 1)
    return jnp.where(failed, jnp.nan, jnp.mean(scores, axis=0))


def with_worst_for_failed(fitness: jax.Array) -> jax.Array:
    """Return finite fitness [population_size], with failed candidates below all others."""
    finite = jnp.isfinite(fitness)
    fitness = jnp.clip(fitness, -FITNESS_LIMIT, FITNESS_LIMIT)
    low = jnp.min(jnp.where(finite, fitness, jnp.inf))
    high = jnp.max(jnp.where(finite, fitness, -jnp.inf))
    worst = low - (0.1 * (high - low) + 1e-3 * jnp.abs(low) + 1e-6)
    return jnp.where(finite, fitness, jnp.where(jnp.any(finite), worst, 0.0))
