"""`Strategy`, the interface between the outer loop and algorithms that propose candidates.

Example: keep the best of random candidates around the best so far.

    @dataclass(frozen=True)
    class RandomSearch(Strategy):
        population_size: int = 64
        sigma: float = 0.1

        def init(self, key, init_solution): ...
        def ask(self, key, state): ...
        def tell(self, key, population, evaluation, state): ...
        def best(self, state): ...

examples/random_search.py is complete.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval

from metaevo.config.plain import PlainDict
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem
from purerl.types import PyTree


class Strategy(Protocol):
    """Algorithm that proposes candidates and learns from their evaluation.

    All methods are pure and traced. A subclass has the four abstract ones and `population_size`.
    """

    population_size: int
    """candidates per generation"""
    has_mean: bool = False
    """whether `best` is a mean, and so the result of a run; otherwise the result is the `best` of
    any generation that scored highest on the validation keys"""
    perturbs: bool = True
    """whether it adds numbers to meta-parameters, which must then be floating-point; otherwise they
    may be integers, as programs are"""

    @abstractmethod
    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], MetaParams]) -> PyTree:
        """Return the state before generation 0, a pytree of arrays.

        Args:
            key: source of all randomness in this call.
            init_solution: returns one point of the search space for a key.
        """

    @abstractmethod
    def ask(self, key: jax.Array, state: PyTree) -> tuple[MetaParams, Any]:
        """Return the candidates, a pytree with a leading axis [population_size], and the state."""

    @abstractmethod
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

    @abstractmethod
    def best(self, state: PyTree) -> MetaParams:
        """Return the candidate that would be chosen now; it is evaluated on the validation keys."""

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


@dataclass(frozen=True)
class StrategyConfig:
    """Settings of an evolutionary algorithm."""

    algorithm: str = "Open_ES"
    """any of evosax's, by its name there, genetic_programming, or a strategy of your own as
    FILE.py:CLASS or MODULE:CLASS"""
    population_size: Annotated[int, Gt(1)] = 64
    """candidates per generation"""
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
    """more settings of the algorithm's constructor or parameters, by their names there"""
