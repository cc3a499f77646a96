"""Low-rank evolution strategy: perturbations that are made from keys and never stored together.

The perturbation of a matrix [m, n] is a product A B^T / sqrt(rank) of thin normal factors (EGGROLL,
Sarkar et al. 2025, arXiv 2511.16652, section 4). A candidate needs rank (m + n) random numbers for
it instead of m n, and a sum over candidates is one matrix product of their factors. Vectors, and
matrices so small that factors save little, have full normal perturbations. Leading axes of a
parameter number independent matrices.

Candidates 2k and 2k + 1 are an antithetic pair, whose numbers come from the generation's key and k:
when they are evaluated, and again in `tell`. Fitness shaping, optimizer and schedules are as in
Open_ES.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Gt
from evosax.core import fitness_shaping
from flax import struct

from metaevo.config import ConfigError
from metaevo.evolution.evosax import LOW_RANK, CommonSettings, decay
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem
from purerl.types import PyTree

SAVING = 4
"""Factors replace matrices with at least so many times their numbers."""
PAIRS = 64
"""Pairs whose random numbers `tell` holds at once."""

Noise = list[tuple[jax.Array, ...]]
"""Of each parameter, its full perturbation [pairs, ...], or factors A [pairs, ..., rank, m] and
B [pairs, ..., rank, n]."""


class State(struct.PyTreeNode):
    """State between two generations."""

    mean: MetaParams
    """centre of the candidates"""
    optimizer: PyTree
    """state of the mean's optimizer"""
    generation: jax.Array
    """[] int32, generations done"""


class Cloud(NamedTuple):
    """All candidates of a generation, without their numbers."""

    key: jax.Array
    """source of the perturbations"""
    mean: MetaParams
    """centre of the candidates"""
    sigma: jax.Array
    """[] standard deviation of the perturbations"""


class LowRankES(CommonSettings):
    """Open_ES with perturbations of low rank, see the top of this file."""

    has_mean: ClassVar[bool] = True
    algorithm: ClassVar[str] = LOW_RANK  # type: ignore[misc]

    optimizer: Literal["auto", "adam", "sgd", "rmsprop"] = "auto"
    """of the mean; auto is adam"""
    rank: Annotated[int, Gt(0)] = 1
    """of the perturbations of matrices; 1 in the paper's experiments"""

    def check(self, problem: MetaProblem, generations: int) -> None:
        """Raise `ConfigError` for an odd population."""
        if self.population_size % 2:
            raise ConfigError(
                f"strategy.population_size = {self.population_size}: {LOW_RANK} draws antithetic "
                "pairs; must be even"
            )

    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], MetaParams]) -> State:
        """Return the state before generation 0; its mean is that of Open_ES with the same key."""
        mean = jax.tree.map(jnp.asarray, init_solution(jax.random.split(key)[0]))
        return State(mean, self._optimizer(jnp.int32(0)).init(mean), jnp.int32(0))

    def ask(self, key: jax.Array, state: State) -> tuple[Cloud, State]:
        """Return what candidates are made from, and the state."""
        return Cloud(key, state.mean, self.current_sigma(state)), state

    def candidate(self, asked: Cloud, index: jax.Array) -> MetaParams:
        """Return the meta-parameters of one candidate."""
        scale = jnp.where(index % 2 == 0, asked.sigma, -asked.sigma)
        noise = self._noise(asked.key, index[None] // 2, asked.mean)
        return jax.tree.map(jnp.add, asked.mean, self._sum(scale[None], noise, asked.mean))

    def tell(
        self, key: jax.Array, population: Cloud, evaluation: Evaluation, state: State
    ) -> State:
        """Return the state after a generation; if all are tied, only the generation advances."""
        del key
        name = "centered_rank" if self.fitness_shaping == "auto" else self.fitness_shaping
        shape: Any = getattr(fitness_shaping, f"{name}_fitness_shaping_fn")
        cost = shape(None, -evaluation.fitness, None, None).reshape(-1, 2)
        pairs = len(cost)
        weights = cost[:, 0] - cost[:, 1]
        size = min(PAIRS, pairs)
        chunks = -(-pairs // size)
        weights = jnp.pad(weights, (0, chunks * size - pairs)).reshape(chunks, size)

        def add(total, chunk):
            numbers = chunk * size + jnp.arange(size)
            noise = self._noise(population.key, numbers, state.mean)
            return jax.tree.map(jnp.add, total, self._sum(weights[chunk], noise, state.mean)), None

        zero = jax.tree.map(jnp.zeros_like, state.mean)
        total, _ = jax.lax.scan(add, zero, jnp.arange(chunks))
        scale = 1.0 / (self.population_size * population.sigma)
        gradient = jax.tree.map(lambda leaf: (scale * leaf).astype(leaf.dtype), total)
        optimizer = self._optimizer(state.generation)
        updates, moments = optimizer.update(gradient, state.optimizer, state.mean)
        new = State(optax.apply_updates(state.mean, updates), moments, state.generation)
        tied = jnp.max(evaluation.fitness) == jnp.min(evaluation.fitness)
        kept = jax.tree.map(lambda new, old: jnp.where(tied, old, new), new, state)
        return kept.replace(generation=state.generation + 1)

    def best(self, state: State) -> MetaParams:
        """Return the mean."""
        return state.mean

    def current_sigma(self, state: State) -> jax.Array:
        """Return the standard deviation of the perturbations."""
        schedule = decay(self.sigma, self.sigma_decay, self.sigma_limit)
        return jnp.float32(schedule(state.generation))

    def _optimizer(self, generation: jax.Array) -> optax.GradientTransformation:
        name = "adam" if self.optimizer == "auto" else self.optimizer
        rate = decay(self.learning_rate, self.learning_rate_decay, self.learning_rate_limit)
        optimizer: optax.GradientTransformation = getattr(optax, name)(rate(generation))
        return optimizer

    def _noise(self, key: jax.Array, numbers: jax.Array, mean: MetaParams) -> Noise:
        """Return the random numbers of the pairs with these numbers [pairs]."""
        leaves = jax.tree.leaves(mean)
        shapes = [_noise_shapes(leaf.shape, self.rank) for leaf in leaves]
        sizes = [math.prod(shape) for each in shapes for shape in each]
        total, dtype = (sum(sizes),), jnp.result_type(*leaves)
        draw = jax.vmap(lambda n: jax.random.normal(jax.random.fold_in(key, n), total, dtype))
        starts = [sum(sizes[:place]) for place in range(1, len(sizes))]
        flat = iter(jnp.split(draw(numbers), starts, axis=1))
        return [tuple(next(flat).reshape(-1, *shape) for shape in each) for each in shapes]

    def _sum(self, weights: jax.Array, noise: Noise, mean: MetaParams) -> MetaParams:
        """Return the sum of perturbations, weighted with [pairs]."""

        def total(leaf, factors):
            first, *second = factors
            weighted = first * weights.reshape(-1, *[1] * (first.ndim - 1))
            if not second:
                result = jnp.sum(weighted, axis=0)
            else:
                product = jnp.einsum("k...rm,k...rn->...mn", weighted, second[0])
                result = product / math.sqrt(self.rank)
            return result.astype(leaf.dtype)

        leaves, structure = jax.tree.flatten(mean)
        return jax.tree.unflatten(structure, map(total, leaves, noise))


def _noise_shapes(shape: tuple[int, ...], rank: int) -> list[tuple[int, ...]]:
    """Return the shapes of a parameter's factors if they have much fewer numbers, else its own."""
    *front, m, n = (1, 1, *shape)[-max(2, len(shape)) :]
    if SAVING * rank * (m + n) > m * n:
        return [shape]
    return [(*front, rank, m), (*front, rank, n)]
