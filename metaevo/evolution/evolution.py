"""The outer loop (`ask`, `evaluate`, `tell`), with a block of generations in one compiled call.

The whole block runs on the devices. Every device computes the same `ask` and `tell`, trains its
share of the agents, and gathers the fitness. The host only starts blocks.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt
from flax import struct

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices, strategies
from metaevo.evolution.across_tasks import (
    AcrossTasks,
    combine,
    with_worst_for_failed,
)
from metaevo.evolution.layout import Layout
from metaevo.evolution.problem import (
    Evaluation,
    MetaProblem,
    bytes_per_evaluation,
    draw_task,
    fix_task,
    frames_per_evaluation,
    tasks_per_generation,
    validation_tasks,
)
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.evolution.strategy import Strategy, StrategyConfig
from purerl.types import PyTree

BLOCK_CAPACITY = 64
"""Maximum number of generations in a block: the length of its metrics buffer."""
MIDDLE = (0.1, 0.9)
"""Quantiles of the candidates' fitness that are logged."""


@dataclass(frozen=True)
class EvolutionConfig:
    """Length of an evolution, and settings of the evaluation of candidates."""

    generations: Annotated[int, Ge(0)] = 30
    """in total; a resumed run can have more"""
    seeds_per_candidate: Annotated[int, Gt(0)] = 1
    """agents that every candidate trains; all candidates share the generation's keys"""
    across_tasks: AcrossTasks = "mean"
    """how the scores on a generation's tasks become a candidate's fitness: their mean, or the mean
    of its ranks within each task"""
    validation_every: Annotated[int, Gt(0)] = 5
    """generations between two evaluations of the mean on the fixed validation keys; the last
    generation's is always evaluated"""
    validation_seeds: Annotated[int, Ge(0)] = 32
    """agents of such an evaluation; 0 for none"""
    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by the size of an agent"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""
    block_seconds: Annotated[float, Gt(0)] = 10.0
    """maximum seconds on the devices between two returns to the host (at least one generation)"""


class State(struct.PyTreeNode):
    """State that evolution carries from one generation to the next."""

    strategy: Any
    """the state of the strategy"""
    generation: jax.Array
    """[] int32, generations done"""
    elite: Any
    """meta-parameters with the best validation so far (for algorithms without a mean)"""
    elite_fitness: jax.Array
    """[] their validation fitness, -inf before the first"""


class Traced(NamedTuple):
    """Values that may change without recompilation."""

    seed: Any
    """[] uint32, of all randomness"""
    sigma: Any
    """[] float32, at generation 0"""
    learning_rate: Any
    """[] float32, at generation 0"""
    last: Any
    """[] int32, the last generation, which is always validated"""


class Evolution:
    """Evolution of one `MetaProblem` by one strategy; compiled at the first block."""

    def __init__(
        self, problem: MetaProblem, strategy: StrategyConfig, config: EvolutionConfig, *, seed: int
    ):
        self.problem, self.config, self.strategy_config = problem, config, strategy
        self.traced = _traced(seed, strategy, config)
        shapes = jax.eval_shape(problem.init, jax.random.key(0))
        self._solution = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        self.strategy = strategies.make(strategy, self._solution, problem)
        self.population_size = self.strategy.population_size
        self.num_devices = len(devices.select(config.num_devices))
        seeds, tasks = config.seeds_per_candidate, tasks_per_generation(problem)
        rows = self.population_size * seeds
        self.chunk_size = (
            min(config.chunk_size, -(-rows // self.num_devices))
            if config.chunk_size
            else devices.choose_chunk_size(rows, bytes_per_evaluation(problem), self.num_devices)
        )
        self.layout = Layout(
            self.population_size,
            seeds,
            tasks,
            validation_tasks(problem),
            config.validation_seeds,
            stride=self.chunk_size * self.num_devices,
        )
        self.evaluations = self.layout.evaluations
        self._programs: list[PyTree] = []  # the compiled block, shared with those `with_settings`
        self._start = jax.jit(self._init)

    def with_settings(self, seed: int, strategy: StrategyConfig) -> "Evolution":
        """Return an evolution with other settings that shares the compiled programs.

        Raises:
            ValueError: if the strategy differs in more than `sigma` and `learning_rate`.
        """
        ours = self.strategy_config
        if replace(strategy, sigma=ours.sigma, learning_rate=ours.learning_rate) != ours:
            raise ValueError("only sigma and learning_rate can change without compiling again")
        other = copy.copy(self)
        other.traced = _traced(seed, strategy, self.config)
        return other

    def with_chunk_size(self, chunk_size: int) -> "Evolution":
        """Return the same evolution with a different chunk size."""
        if chunk_size == self.chunk_size:
            return self
        config = replace(self.config, chunk_size=chunk_size)
        other = Evolution(self.problem, self.strategy_config, config, seed=int(self.traced.seed))
        other.traced = self.traced
        return other

    def init(self) -> State:
        """Return the state before generation 0, replicated over the devices."""
        return devices.replicate(self.start(), self.num_devices)

    def start(self) -> State:
        """Return a single copy of the state before generation 0."""
        state: State = self._start(self.traced)
        return state

    def compile(self) -> int:
        """Compile a block; return the bytes that it needs on a device, by XLA's analysis."""
        memory = self.program.memory_analysis()
        return int(
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes
            + memory.temp_size_in_bytes
        )

    @property
    def program(self) -> Any:
        """The compiled block, a function of the state, the number of generations and `Traced`."""
        if not self._programs:
            block = devices.spread(
                self._block, in_axes=(0, None, None), num_devices=self.num_devices
            )
            lowered = block.lower(self.init(), np.int32(1), self.traced)
            self._programs.append(lowered.compile())
        return self._programs[0]

    @property
    def template(self) -> State:
        """Shapes of one copy of the state."""
        return jax.eval_shape(self._init, self.traced)

    def _init(self, traced: Traced) -> State:
        key = key_for(traced.seed, Purpose.INITIALISATION)
        elite_key, strategy_key = jax.random.split(key)
        return State(
            strategy=self._strategy(traced).init(strategy_key, self.problem.init),
            generation=jnp.int32(0),
            elite=self.problem.init(elite_key),
            elite_fitness=jnp.float32(-jnp.inf),
        )

    def run_block(self, state: State, generations: int) -> tuple[State, dict[str, np.ndarray]]:
        """Run some generations in one compiled call; their number can change without recompilation.

        Args:
            state: replicated over the devices; it stays valid, so that a block can be repeated.
            generations: from 1 to BLOCK_CAPACITY.

        Returns:
            the new state and metrics, each [generations].

        Raises:
            ValueError: for a number of generations out of range.
        """
        if not 1 <= generations <= BLOCK_CAPACITY:
            raise ValueError(f"generations = {generations} must be in [1, {BLOCK_CAPACITY}]")
        state, metrics = self.program(state, np.int32(generations), self.traced)
        metrics = jax.device_get(devices.first(metrics))
        return state, {key: value[:generations] for key, value in metrics.items()}

    def result(self, state: State) -> PyTree:
        """Return the result: the mean or, for strategies without one, the best validated elite."""
        state = devices.first(state)
        if self.strategy.has_mean or not np.isfinite(state.elite_fitness):
            return self.strategy.best(state.strategy)
        return state.elite

    def others(self, state: State) -> list[PlainDict]:
        """Return other results of the strategy for the report, as rows of a table."""
        return self.strategy.others(jax.device_get(devices.first(state.strategy)))

    @property
    def frames_per_generation(self) -> int:
        """Mean environment steps of a generation, without validation."""
        return self.evaluations * frames_per_evaluation(self.problem)

    def frames(self, generations: int) -> int:
        """Return the environment steps of that many generations, validation included.

        Where they depend on the drawn tasks, they are a mean; the metric `frames` has the exact
        number of each generation.
        """
        due = self._is_validated(np.arange(generations), self.config.generations - 1)
        validations = int(np.sum(due))
        agents = validations * self.config.validation_seeds * self.layout.validation_tasks
        validation = agents * frames_per_evaluation(self.problem)
        return generations * self.frames_per_generation + validation

    def _is_validated(self, generation: Any, last: Any) -> Any:
        """Return whether the mean is validated in a generation, or in each of an array."""
        due = (generation % self.config.validation_every == 0) | (generation == last)
        if not self.strategy.has_mean:  # the first population has no best member yet
            due = due & (generation > 0)
        return due & (self.config.validation_seeds > 0)

    def _strategy(self, traced: Traced) -> Strategy:
        steps = {"sigma": traced.sigma, "learning_rate": traced.learning_rate}
        return strategies.make(self.strategy_config, self._solution, self.problem, **steps)

    def _judged(self, evaluation: Evaluation) -> tuple[Evaluation, jax.Array]:
        """Return each candidate's means [population_size], and the fitness for the strategy."""
        of_tasks = self.layout.of_tasks
        by_task = jax.tree.map(lambda leaf: jnp.mean(of_tasks(leaf), axis=2), evaluation)
        means = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), by_task)
        told = combine(self.config.across_tasks, by_task.fitness)
        return means, with_worst_for_failed(told)

    def _frames(self, draw: Callable[..., PyTree], validation_agents: jax.Array) -> Any:
        """Return the environment steps of a generation, [] int32; None if all have as many.

        `validation_agents`, [] int32, are the agents on each validation task.
        """
        count: Any = getattr(self.problem, "frames_of", None)
        if count is None:
            return None

        def total(validating, tasks):
            return jnp.sum(jax.vmap(lambda each: count(draw(validating, each)))(jnp.arange(tasks)))

        validation = total(True, self.layout.validation_tasks) * validation_agents
        return total(False, self.layout.tasks) * self.layout.rows + validation

    def _block(
        self, state: State, generations: jax.Array, traced: Traced
    ) -> tuple[State, dict[str, jax.Array]]:
        generation = jax.jit(self._generation)  # traced once, although `eval_shape` comes first
        shapes = jax.eval_shape(generation, state, traced)[1]
        buffers = {key: jnp.zeros(BLOCK_CAPACITY, leaf.dtype) for key, leaf in shapes.items()}

        def body(index, carry):
            state, buffers = carry
            state, metrics = generation(state, traced)
            return state, {key: buffers[key].at[index].set(metrics[key]) for key in buffers}

        return jax.lax.fori_loop(0, generations, body, (state, buffers))

    def _generation(self, state: State, traced: Traced) -> tuple[State, dict[str, jax.Array]]:
        config, layout, strategy = self.config, self.layout, self._strategy(traced)
        key = jax.random.fold_in(key_for(traced.seed, Purpose.EVOLUTION), state.generation)
        ask_key, evaluation_key, tell_key = jax.random.split(key, 3)
        validation_key = key_for(traced.seed, Purpose.VALIDATION)

        population, asked = strategy.ask(ask_key, state.strategy)
        mean = strategy.best(state.strategy)

        def draw(validating, number):
            key = jnp.where(validating, validation_key, evaluation_key)
            return draw_task(self.problem, key, number)

        def key_of(validating, number, index):
            own = jax.random.fold_in(evaluation_key, number * layout.rows + index)
            fixed = jax.random.fold_in(validation_key, number * config.validation_seeds + index)
            return jnp.where(validating, fixed, own)

        due = self._is_validated(state.generation, traced.last)

        def task_of(row):
            validating, number, *_ = layout.place(row)
            return draw(validating, number)

        def evaluate(row, task):
            validating, number, candidate, index = layout.place(row)
            meta_params = jax.tree.map(
                lambda own, mean: jnp.where(validating, mean, own[candidate]), population, mean
            )
            index = jnp.where(validating, index, index % config.seeds_per_candidate)
            key = key_of(validating, number, index)
            return fix_task(self.problem, task).evaluate(key, meta_params)

        evaluation = devices.map_rows(
            evaluate,
            shared=task_of,
            capacity=layout.capacity,
            num_rows=jnp.where(due, layout.capacity, layout.without_validation),
            chunk_size=self.chunk_size,
            num_devices=self.num_devices,
        )
        means, fitness_to_tell = self._judged(evaluation)
        fitness = means.fitness  # not finite if any agent failed
        finite = jnp.isfinite(fitness)
        ranked = means._replace(fitness=fitness_to_tell)
        told = strategy.tell(tell_key, population, ranked, asked)

        validation = layout.of_validation(evaluation.fitness)
        fitness_of_mean = jnp.where(due, jnp.mean(validation), jnp.nan)
        improved = fitness_of_mean > state.elite_fitness
        elite = jax.tree.map(lambda new, old: jnp.where(improved, new, old), mean, state.elite)

        low, high = jnp.nanquantile(jnp.where(finite, fitness, jnp.nan), jnp.array(MIDDLE))
        metrics = {
            "fitness_mean": _mean(fitness, finite),
            "fitness_std": jnp.sqrt(_mean(jnp.square(fitness - _mean(fitness, finite)), finite)),
            "fitness_best": jnp.max(jnp.where(finite, fitness, -jnp.inf)),
            "fitness_low": low,
            "fitness_high": high,
            "fitness_of_mean": fitness_of_mean,
            "diverged": jnp.sum(~finite),
            "tied": jnp.max(fitness) == jnp.min(fitness),
            "sigma": strategy.current_sigma(state.strategy),
        }
        for name, values in evaluation.metrics.items():
            values = layout.of_tasks(values)
            metrics[name] = _mean(values, jnp.isfinite(values))
        agents = jnp.where(due, config.validation_seeds, 0)
        if (frames := self._frames(draw, agents)) is not None:
            metrics["frames"] = frames
        state = State(
            strategy=told,
            generation=state.generation + 1,
            elite=elite,
            elite_fitness=jnp.where(improved, fitness_of_mean, state.elite_fitness),
        )
        return state, metrics


def _mean(values: jax.Array, where: jax.Array) -> jax.Array:
    """Mean over the chosen entries, NaN if there are none."""
    return jnp.sum(jnp.where(where, values, 0.0)) / jnp.sum(where)


def _traced(seed: int, strategy: StrategyConfig, config: EvolutionConfig) -> Traced:
    steps = np.float32(strategy.sigma), np.float32(strategy.learning_rate)
    return Traced(np.uint32(seed), *steps, np.int32(config.generations - 1))
