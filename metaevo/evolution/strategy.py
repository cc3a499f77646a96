"""`Strategy`, the base class of algorithms that propose candidates.

Example: keep the best of random candidates around the best so far.

    class RandomSearch(metaevo.Strategy):
        sigma: float = 0.1

        def init(self, key, init_solution): ...
        def ask(self, key, state): ...
        def tell(self, key, population, evaluation, state): ...
        def best(self, state): ...

examples/random_search.py is complete.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self, dataclass_transform, get_args, get_type_hints

import jax
import jax.numpy as jnp
from annotated_types import Gt

from metaevo.config.plain import PlainDict
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem
from purerl.types import PyTree


class _Static:
    """Values of fields that are compiled in; equal if they print alike."""

    def __init__(self, values: tuple[Any, ...]):
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and repr(self.values) == repr(other.values)

    def __hash__(self) -> int:
        return hash(repr(self.values))


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
        return children, _Static(tuple(getattr(strategy, name) for name in static))

    def unflatten(aux: _Static, children: Any) -> Strategy:
        strategy = object.__new__(cls)
        for name, value in zip((*traced, *static), (*children, *aux.values), strict=True):
            object.__setattr__(strategy, name, value)
        return strategy

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
