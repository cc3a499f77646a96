"""Genetic programming: programs that train agents well are varied, and trained again and again.

A generation trains two groups on the same keys:

- **survivors**, which have been trained in earlier generations. A survivor's mean covers all of
  them, so a program that was only lucky falls behind. The mean change of their scores is
  attributed to the generation's keys and subtracted. Survivors were also lucky when they were
  chosen, so the corrected means rise, and old programs fall behind. This keeps the search moving,
  like the removal of the oldest in regularised evolution (Real et al. 2019). Reports shift the
  corrected means back to the scale of returns.
- **newcomers**: variations of survivors, see `metaevo.evolution.variation`, and a few random
  programs. Several are made for each place. Those that are invalid, or behave like a program that
  was trained before, are left out as long as there are enough others.

Then the best of both survive. First come those on the front of score against length, which are
better than every shorter one, then the others by their score. The score is the mean less its
standard error, so a newcomer has to be clearly better. Of programs that differ in their constants
only, a few survive: otherwise copies of one program would fill all places.
"""

import copy
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt
from flax import struct

from metaevo.config import ConfigError, PlainDict
from metaevo.evolution import postfix, variation
from metaevo.evolution.evosax import GENETIC_PROGRAMMING
from metaevo.evolution.postfix import Program
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem
from metaevo.evolution.strategy import Strategy
from purerl.types import PyTree

SMALLEST = 8
"""Least population size."""
CHANCES = {
    "exchange with a survivor": 0.3,
    "exchange with a random program": 0.15,
    "insert": 0.15,
    "change": 0.1,
    "hoist": 0.05,
    "perturb": 0.2,
    "drawn": 0.05,
}
"""Probabilities of the operations that make newcomers; "drawn" is a program of the pool."""
WITH_SURVIVOR, DRAWN = 0, len(CHANCES) - 1
TRIES = 8
"""Variations that are made for each newcomer."""
TWINS = 4
"""Most survivors that differ in their constants only."""
MEMORY = 4096
"""Least number of trained programs that are remembered by their behaviour."""
POOL = 2048
"""Least number of random programs, of which generation 0 and new subtrees are taken."""
TOLERANCE = 1e-5
"""Relative rounding error of a program's outputs."""
SPREAD = 1.0
"""Powers of ten by which the size of perturbations is varied in both directions."""


class State(struct.PyTreeNode):
    """State between two generations; E survivors."""

    programs: PyTree
    """[E] survivors"""
    mean: jax.Array
    """[E] of their fitness, less the common effect of a generation's keys"""
    returned: jax.Array
    """[E] plain mean of their fitness, for reports"""
    generations: jax.Array
    """[E] that the means cover"""
    noise: jax.Array
    """[] standard deviation of one program's fitness over generations"""
    seen: jax.Array
    """[memory, points] behaviour of trained programs, a ring"""
    trained: jax.Array
    """[] int32, programs that were written into it"""
    pool: PyTree
    """[pool] programs drawn before generation 0"""


class GeneticProgramming(Strategy):
    """Genetic programming on postfix programs, see `metaevo.evolution.postfix`."""

    perturbs = False

    sigma: Annotated[float, Gt(0)] = 0.1
    """size of the perturbations of constants"""
    survivors: Annotated[int, Gt(0)] | None = None
    """programs that survive a generation; by default a quarter of the population"""
    tournament: Annotated[int, Gt(0)] = 4
    """survivors of which the best one is varied"""

    _problem: ClassVar[Any] = None
    """of a bound strategy: how its programs behave"""

    def bind(self, problem: MetaProblem) -> Self:
        """Return the strategy for the programs of a problem."""
        bound = copy.copy(self)
        object.__setattr__(bound, "_problem", problem.programs)
        return bound

    def check(self, problem: MetaProblem, generations: int) -> None:
        """Raise `ConfigError` unless the problem has programs, and the population suffices."""
        size = self.population_size
        if problem.programs is None:
            raise ConfigError(
                f"strategy: {GENETIC_PROGRAMMING} varies programs only; needs evolve: program, "
                "as the only part"
            )
        if size < SMALLEST:
            raise ConfigError(
                f"strategy.population_size = {size}: {GENETIC_PROGRAMMING} needs at least "
                f"{SMALLEST}"
            )
        for name in ("survivors", "tournament"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 1 <= value < size):
                raise ConfigError(
                    f"strategy.settings.{name} = {value!r}: must be a whole number from 1 to "
                    f"{size - 1}, less than strategy.population_size"
                )

    @property
    def _survivors(self) -> int:
        return self.survivors or self.population_size // 4

    def init(self, key: jax.Array, init_solution: Callable[[jax.Array], MetaParams]) -> PyTree:
        """Return the state before generation 0, in which all programs come from the pool."""
        count = self._survivors
        pool = jax.vmap(init_solution)(jax.random.split(key, max(POOL, self.population_size)))
        programs = _at(pool, slice(count))
        outputs = jax.vmap(self._problem.fingerprint)(programs)
        memory = max(MEMORY, 2 * self.population_size)
        seen = jnp.full((memory, outputs.shape[1]), jnp.nan)
        return State(
            programs=programs,
            mean=jnp.zeros(count),
            returned=jnp.zeros(count),
            generations=jnp.zeros(count),
            noise=jnp.float32(0.0),
            seen=seen.at[:count].set(outputs),
            trained=jnp.int32(count),
            pool=pool,
        )

    def ask(self, key: jax.Array, state: PyTree) -> tuple[MetaParams, PyTree]:
        """Return the survivors, followed by newcomers."""
        wanted = self.population_size - self._survivors
        keys = jax.random.split(key, TRIES * wanted)
        made = jax.vmap(self._vary, in_axes=(0, None))(keys, state)
        outputs = jax.vmap(self._problem.fingerprint)(made)
        known = jax.vmap(self._problem.fingerprint)(state.programs)
        is_new = self._first_of_kind(jnp.concatenate([state.seen, known, outputs]))[-len(keys) :]
        rank = jnp.where(is_useful(outputs), jnp.where(is_new, 0, 1), 2)
        chosen = jnp.argsort(rank, stable=True)[:wanted]
        newcomers = _at(made, chosen)
        places = (state.trained + jnp.arange(wanted)) % len(state.seen)
        population = jax.tree.map(
            lambda old, new: jnp.concatenate([old, new]), state.programs, newcomers
        )
        return population, state.replace(
            seen=state.seen.at[places].set(outputs[chosen]),
            trained=state.trained + wanted,
        )

    def _vary(self, key: jax.Array, state: State) -> PyTree:
        """Return a variation of a survivor, or a program of the pool, as all are at first."""
        pick_key, kind_key, size_key, key = jax.random.split(key, 4)
        parents, stranger, number = self._pick(pick_key, state)
        mother, father = (_at(state.programs, each) for each in parents)
        own, other, new = (_program(each, number) for each in (mother, father, stranger))
        kind = jax.random.choice(kind_key, len(CHANCES), p=jnp.array(list(CHANCES.values())))
        kind = jnp.where(state.generations[0] > 0, kind, DRAWN)
        donor = jax.tree.map(lambda *each: jnp.where(kind == WITH_SURVIVOR, *each), other, new)
        size = self.sigma * 10 ** jax.random.uniform(size_key, minval=-SPREAD, maxval=SPREAD)
        exchanged = variation.exchange(key, own, donor)
        results = [
            exchanged,
            exchanged,
            variation.insert(key, own, new),
            variation.change(key, own, new),
            variation.hoist(key, own),
            variation.perturb(key, own, size),
            new,
        ]
        codes, constants = (jax.lax.select_n(kind, *each) for each in zip(*results, strict=True))
        codes, constants = variation.limited(own, (codes, constants), self._problem.depth)
        return {
            "codes": mother["codes"].at[number].set(codes),
            "constants": mother["constants"].at[number].set(constants),
        }

    def _pick(self, key: jax.Array, state: State) -> tuple[jax.Array, PyTree, jax.Array]:
        """Return the winners of two tournaments [2], one of the pool, and which program to vary."""
        rows_key, pool_key, number_key = jax.random.split(key, 3)
        rows = jax.random.randint(rows_key, (2, self.tournament), 0, self._survivors)
        winners = rows[jnp.arange(2), jnp.argmax(state.mean[rows], axis=1)]
        stranger = jax.random.randint(pool_key, (), 0, len(state.pool["codes"]))
        number = jax.random.randint(number_key, (), 0, state.pool["codes"].shape[1])
        return winners, _at(state.pool, stranger), number

    def _first_of_kind(self, outputs: jax.Array) -> jax.Array:
        """Return whether no earlier row of outputs [N, points] is the same, [N].

        Rows that are the same up to rounding are neighbours in the order of a weighted sum.
        """
        count = len(outputs)
        weights = np.random.default_rng(0).normal(size=outputs.shape[1]).astype(np.float32)
        order = jnp.argsort(jnp.sum(weights * jnp.arcsinh(outputs), axis=1))
        ordered = outputs[order]
        kind = jnp.append(0, jnp.cumsum(~is_same(ordered[1:], ordered[:-1])))
        first = jnp.full(count, count).at[kind].min(order)
        return jnp.zeros(count, bool).at[order].set(first[kind] == order)

    def tell(
        self, key: jax.Array, population: PyTree, evaluation: Evaluation, state: PyTree
    ) -> PyTree:
        """Return the state with the next survivors."""
        del key
        known = evaluation.fitness[: self._survivors]
        # The effect of the keys that all programs share, and of the survivors' luck until now.
        surprise = known - state.mean
        weight = jnp.maximum(jnp.sum(state.generations), 1.0)
        common = jnp.sum(state.generations * surprise) / weight
        fitness = evaluation.fitness - common
        before = jnp.concatenate([state.generations, jnp.zeros(len(fitness) - self._survivors)])
        mean = _continued(state.mean, before, fitness)
        returned = _continued(state.returned, before, evaluation.fitness)
        noise = _noise(surprise - common, state.generations)
        noise = jnp.where(jnp.isnan(noise), state.noise, 0.5 * (noise + state.noise))

        score = mean - noise / jnp.sqrt(before + 1.0)
        codes = population["codes"]
        is_front = front(score, lengths(codes))
        is_spare = better_twins(score, codes) >= TWINS
        order = jnp.lexsort((-score, ~is_front, is_spare))
        kept = order[: self._survivors]
        return state.replace(
            programs=_at(population, kept),
            mean=mean[kept],
            returned=returned[kept],
            generations=before[kept] + 1.0,
            noise=noise,
        )

    def best(self, state: PyTree) -> MetaParams:
        """Return the survivor with the best score."""
        return _at(state.programs, jnp.argmax(score_of(state)))

    def others(self, state: PyTree) -> list[PlainDict]:
        """Return the front of score against length: programs better than every shorter one."""
        score = score_of(state)
        length = lengths(state.programs["codes"])
        on_front = np.flatnonzero(front(score, length) & (state.generations > 0))
        rows = {int(length[row]): row for row in on_front.tolist()}  # a program may survive twice
        weight = state.generations / max(float(np.sum(state.generations)), 1.0)
        level = float(np.sum(weight * (state.mean - state.returned)))
        return [
            {
                "length": size,
                "score": float(score[row]) - level,
                "generations": int(state.generations[row]),
                "program": self._problem.text(_at(state.programs, row)),
            }
            for size, row in sorted(rows.items())
        ]


def is_useful(outputs: jax.Array) -> jax.Array:
    """Return whether outputs [..., N] are finite and not all zero, so an agent can learn, [...]."""
    return jnp.all(jnp.isfinite(outputs), -1) & jnp.any(outputs != 0.0, -1)


def is_same(first: jax.Array, second: jax.Array) -> jax.Array:
    """Return whether outputs [..., N] are equal except for rounding, [...].

    The tolerance is relative to each output, or to the median size of the outputs if that is
    larger, since the difference of two large numbers has their rounding.
    """
    sizes = jnp.maximum(jnp.abs(first), jnp.abs(second))
    scale = jnp.maximum(sizes, jnp.median(sizes, axis=-1, keepdims=True))
    return jnp.all(jnp.abs(first - second) <= TOLERANCE * scale, -1)


def score_of(state: State) -> jax.Array:
    """Return the survivors' means less their standard errors, [E]."""
    return state.mean - state.noise / jnp.sqrt(jnp.maximum(state.generations, 1.0))


def _continued(mean: jax.Array, count: jax.Array, fitness: jax.Array) -> jax.Array:
    """Return means [N] with one more value; the survivors [E] have one, the others begin."""
    mean = jnp.concatenate([mean, fitness[len(mean) :]])
    return mean + (fitness - mean) / (count + 1.0)


def lengths(codes: jax.Array) -> jax.Array:
    """Return the total length of each of the components [N] with codes [N, programs, L]."""
    return jnp.sum(codes != postfix.BLANK, axis=(1, 2))


def front(score: jax.Array, length: jax.Array) -> jax.Array:
    """Return whether each [N] is better than all that are shorter or as long."""
    better = score[None, :] > score[:, None]
    earlier = (score[None, :] == score[:, None]) & (length[None, :] < length[:, None])
    return ~jnp.any((better | earlier) & (length[None, :] <= length[:, None]), axis=1)


def better_twins(score: jax.Array, codes: jax.Array) -> jax.Array:
    """Return how many with the same codes [N, programs, L] have a better score, [N]."""
    order = jnp.argsort(-score)
    codes = codes.reshape(len(score), -1)[order]
    factors = np.random.default_rng(0).integers(1, 2**31, codes.shape[1], np.int32)
    name = jnp.sum(codes * factors, axis=1)  # differs for other codes, almost surely
    better = jnp.sum(jnp.tril(name[:, None] == name, -1), axis=1)
    return jnp.zeros(len(score), better.dtype).at[order].set(better)


def _noise(surprise: jax.Array, count: jax.Array) -> jax.Array:
    """Return the standard deviation of the fitness over generations; NaN without survivors.

    A surprise is a new fitness less the mean over `count` generations. The median is robust to
    programs that sometimes diverge.
    """
    scaled = jnp.abs(surprise) * jnp.sqrt(count / (count + 1.0))
    return 1.4826 * jnp.nanmedian(jnp.where(count > 0, scaled, jnp.nan))


def _at(tree: PyTree, index: Any) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _program(meta_params: PyTree, number: jax.Array) -> Program:
    return meta_params["codes"][number], meta_params["constants"][number]
