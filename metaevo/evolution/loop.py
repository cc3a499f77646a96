"""The loop of evolution: ask, evaluate, tell, and validate now and then.

    evolution = Evolution(problem, strategy, config)
    for block in evolution.blocks(evolution.start(seed=0)):
        ...                                                  # log it, save it, draw it, or break

A block of generations is one compiled call. Every device computes the same `ask` and `tell`, trains
its share of the agents, and gathers the fitness; the host only starts blocks. Several processes
iterate together, and have to leave the loop together.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Interval
from flax import struct

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.problem import (
    MetaParams,
    MetaProblem,
    Purpose,
    frames_per_generation,
    key_for,
    task_key,
)
from metaevo.evolution.rows import Layout, choose_chunk_size, map_rows
from metaevo.evolution.strategy import Strategy, across_tasks, with_worst_for_failed


@dataclass(frozen=True)
class EvolutionConfig:
    """Length of an evolution, and settings of the evaluation of candidates.

    Examples:
        >>> config = metaevo.EvolutionConfig(generations=4, seeds_per_candidate=2)
        >>> found = metaevo.evolve(problem, evolution=config)
    """

    generations: Annotated[int, Gt(0)] = 30
    """in total; a resumed run can have more"""
    seeds_per_candidate: Annotated[int, Gt(0)] = 1
    """agents that every candidate trains; all candidates share the generation's keys"""
    across_tasks: Literal["mean", "rank"] = "mean"
    """how the scores on a generation's tasks become a candidate's fitness: their mean, or the mean
    of its ranks within each task"""
    validation_every: Annotated[int, Gt(0)] = 5
    """generations between two evaluations of the mean on the fixed validation keys; the last
    generation's is always evaluated"""
    validation_seeds: Annotated[int, Ge(0)] = 32
    """agents of such an evaluation; 0 for none"""
    block_size: Annotated[int, Interval(ge=1, le=10_000)] = 5
    """generations in one compiled call; after each block a run logs them and saves a checkpoint"""
    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by the size of an agent"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


class State(struct.PyTreeNode):
    """State of an evolution between two generations."""

    seed: Any
    """[] uint32, of all randomness"""
    strategy: Strategy
    """with its traced settings"""
    search: Any
    """the state of the strategy"""
    generation: jax.Array
    """[] int32, generations done"""
    elite: Any
    """meta-parameters with the best validation so far (for algorithms without a mean)"""
    elite_fitness: jax.Array
    """[] their validation fitness, -inf before the first"""


class Block(NamedTuple):
    """Generations that were just done; the first block of a loop has none."""

    state: State
    """state after the block, replicated over the devices"""
    records: list[PlainDict]
    """metrics of each generation by name, and its number; `frames` are all environment steps until
    its end"""
    done: int
    """generations in all"""
    seconds: float
    """duration of the block"""


class Evolution:
    """The compiled generations of a problem, for any seed and any traced setting of a strategy.

    Examples:
        >>> evolution = metaevo.Evolution(problem, metaevo.OpenES(), metaevo.EvolutionConfig())
        >>> first = next(evolution.blocks(evolution.start(seed=0)))
    """

    def __init__(self, problem: MetaProblem, strategy: Strategy, config: EvolutionConfig):
        """Choose the size of chunks unless `config` names it; compiles on the first block."""
        self.problem, self.strategy, self.config = problem, strategy, config
        self.population_size = strategy.population_size
        self.num_devices = len(devices.select(config.num_devices))
        rows = self.population_size * config.seeds_per_candidate
        self._share = -(-rows // self.num_devices)
        size = config.chunk_size
        size = size or choose_chunk_size(rows, problem.working_set_bytes, self.num_devices)
        self.chunk_size = min(size, self._share)
        self.bytes_needed: int | None = None
        """memory of the compiled block on a device, by XLA's analysis"""
        self._program: Any = None
        self._start = jax.jit(self._init)

    @property
    def layout(self) -> Layout:
        """The rows of a generation."""
        return Layout(
            self.population_size,
            self.config.seeds_per_candidate,
            self.problem.tasks_per_generation,
            len(self.problem.tasks),
            self.config.validation_seeds,
            stride=self.chunk_size * self.num_devices,
        )

    @property
    def frames(self) -> int:
        """Environment steps of the candidates of a generation, on average."""
        agents = self.population_size * self.config.seeds_per_candidate
        return agents * frames_per_generation(self.problem)

    @property
    def template(self) -> State:
        """Shapes of one copy of the state."""
        return jax.eval_shape(self._init, np.uint32(0), self.strategy)

    def start(self, seed: int, strategy: Strategy | None = None) -> State:
        """Return a single copy of the state before generation 0.

        Another strategy than that of the evolution may differ in traced numbers, or raises
        `ValueError`.
        """
        strategy = self.strategy if strategy is None else strategy
        structures: list[Any] = [jax.tree.structure(each) for each in (strategy, self.strategy)]
        if structures[0] != structures[1]:
            raise ValueError("only traced numbers of a strategy can change without compiling again")
        state: State = self._start(np.uint32(seed), strategy)
        return state

    def blocks(self, start: State, *, frames: int = 0) -> Iterator[Block]:
        """Yield the remaining generations in blocks, in all processes alike.

        `start` is one copy of the state, after so many `frames`; the first process's is used.
        """
        total, size = self.config.generations, self.config.block_size
        start = devices.share(jax.device_get(start))
        state, done = devices.replicate(start, self.num_devices), int(start.generation)
        if done < total:
            self.compiled()
        yield Block(state, [], done, 0.0)
        while done < total:
            count, before = min(size - done % size, total - done), time.monotonic()
            state, metrics = self.run(state, count)
            seconds = time.monotonic() - before
            records = self._records(done, metrics, frames)
            done, frames = done + count, records[-1]["frames"]
            yield Block(state, records, done, seconds)

    def run(self, state: State, count: int) -> tuple[State, dict[str, np.ndarray]]:
        """Run generations in one compiled call; another number of them does not compile again.

        If a device runs out of memory, the call is repeated with half the chunk size.

        Args:
            state: replicated over the devices; it stays valid.
            count: from 1 to `config.block_size`.

        Returns:
            the new state, and metrics, each [count, ...].

        Raises:
            ConfigError: if a single agent at a time does not fit.
            LostError: with several processes, because the others already wait for this process.
        """
        if not 1 <= count <= self.config.block_size:
            raise ValueError(f"count = {count}: must be from 1 to {self.config.block_size}")
        last = np.int32(self.config.generations - 1)
        while True:
            try:
                after, metrics = self.compiled()(state, np.int32(count), last)
                metrics = jax.device_get(devices.first(metrics))
                return after, {name: values[:count] for name, values in metrics.items()}
            except jax.errors.JaxRuntimeError as error:
                from metaevo.evolution import memory

                memory.check_out_of_memory(error)
                size = self.chunk_size
                if jax.process_count() > 1:
                    raise memory.LostError(
                        f"out of memory with {size} agents at once: continue with --resume "
                        f"--evolution.chunk_size {max(1, size // 2)}"
                    ) from None
                self.use_chunks_of(memory.halved(size))

    def compiled(self) -> Any:
        """Return the compiled block, a function of the state, a number and the last generation.

        Its chunks fit into the memory of every device, by XLA's analysis, unless `config` names
        their size.
        """
        while self._program is None:
            block = devices.spread(
                self._block, in_axes=(0, None, None), num_devices=self.num_devices
            )
            state = devices.replicate(self.start(0), self.num_devices)
            program = needed = None
            try:
                program = block.lower(state, np.int32(1), np.int32(0)).compile()
                needed = devices.bytes_of_program(program)
            except jax.errors.JaxRuntimeError as error:
                from metaevo.evolution import memory

                memory.check_out_of_memory(error)
            size = self.chunk_size
            answers = devices.gather((needed, devices.free_bytes()))
            if any(need is None or need > free for need, free in answers):
                from metaevo.evolution import memory

                keep = self.config.chunk_size is not None
                self.use_chunks_of(memory.fitting(size, answers, keep=keep))
            if self.chunk_size == size:
                self._program, self.bytes_needed = program, needed
        return self._program

    def use_chunks_of(self, chunk_size: int) -> None:
        """Train so many agents at once on a device from now on, which compiles again."""
        if (chunk_size := min(chunk_size, self._share)) != self.chunk_size:
            self.chunk_size, self._program = chunk_size, None

    def result(self, state: State) -> MetaParams:
        """Return the result: the mean or, for strategies without one, the best validated elite."""
        state = devices.first(state)
        if self.strategy.has_mean or not np.isfinite(state.elite_fitness):
            return state.strategy.bind(self.problem).best(state.search)
        return state.elite

    def others(self, state: State) -> list[PlainDict]:
        """Return other results of the strategy for the report, as rows of a table."""
        search = jax.device_get(devices.first(state)).search
        return self.strategy.bind(self.problem).others(search)

    # --- Inside of the program ------------------------------------------------------------------

    def _init(self, seed: Any, strategy: Strategy) -> State:
        elite_key, strategy_key = jax.random.split(key_for(seed, Purpose.INITIALISATION))
        return State(
            seed=seed,
            strategy=strategy,
            search=strategy.bind(self.problem).init(strategy_key, self.problem.init),
            generation=jnp.int32(0),
            elite=self.problem.init(elite_key),
            elite_fitness=jnp.float32(-jnp.inf),
        )

    def _block(
        self, state: State, count: jax.Array, last: jax.Array
    ) -> tuple[State, dict[str, jax.Array]]:
        generation = jax.jit(self._generation)  # traced once, although `eval_shape` comes first
        shapes = jax.eval_shape(generation, state, last)[1]
        size = self.config.block_size
        buffers = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), shapes)

        def body(index, carry):
            state, buffers = carry
            state, metrics = generation(state, last)
            return state, {name: buffers[name].at[index].set(metrics[name]) for name in buffers}

        return jax.lax.fori_loop(0, count, body, (state, buffers))

    def _generation(self, state: State, last: jax.Array) -> tuple[State, dict[str, jax.Array]]:
        strategy, layout = state.strategy.bind(self.problem), self.layout
        key = jax.random.fold_in(key_for(state.seed, Purpose.EVOLUTION), state.generation)
        ask_key, evaluation_key, tell_key = jax.random.split(key, 3)
        validation_key = key_for(state.seed, Purpose.VALIDATION)
        due = (state.generation % self.config.validation_every == 0) | (state.generation == last)
        if not strategy.has_mean:  # the first population has no best member yet
            due &= state.generation > 0
        due &= self.config.validation_seeds > 0

        population, asked = strategy.ask(ask_key, state.search)
        best = strategy.best(state.search)

        def draw(validating, number):
            key = jnp.where(validating, validation_key, evaluation_key)
            return self.problem.draw_task(task_key(key), number)

        def evaluate(row, task):
            place = layout.place(row)
            meta_params = jax.tree.map(
                lambda own, best: jnp.where(place.validating, best, own),
                strategy.candidate(population, place.candidate),
                best,
            )
            own = jax.random.fold_in(evaluation_key, place.task * layout.rows + place.seed)
            fixed = jax.random.fold_in(
                validation_key, place.task * layout.validation_seeds + place.seed
            )
            key = jnp.where(place.validating, fixed, own)
            evaluation = self.problem.evaluate(key, meta_params, task)
            return jax.tree.map(jnp.float32, evaluation)  # also where JAX has 64 bits

        evaluation = map_rows(
            evaluate,
            shared=lambda row: draw(layout.place(row).validating, layout.place(row).task),
            capacity=layout.all_rows,
            num_rows=jnp.where(due, layout.all_rows, layout.candidate_rows),
            chunk_size=self.chunk_size,
            num_devices=self.num_devices,
        )
        by_task = jax.tree.map(lambda leaf: jnp.mean(layout.of_tasks(leaf), axis=2), evaluation)
        means = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), by_task)
        fitness = across_tasks(self.config.across_tasks, by_task.fitness)
        told = means._replace(fitness=with_worst_for_failed(fitness))
        search = strategy.tell(tell_key, population, told, asked)

        validation = jnp.mean(layout.of_validation(evaluation.fitness))
        fitness_of_mean = jnp.where(due, validation, jnp.nan)
        improved = fitness_of_mean > state.elite_fitness
        metrics = {
            **_summary(means.fitness),
            "fitness_of_mean": fitness_of_mean,
            "sigma": strategy.current_sigma(state.search),
            "validated": due,
            "task_frames": self._frames(draw, False, layout.tasks),
            "validation_frames": self._frames(draw, True, layout.validation_tasks),
        }
        for name, values in evaluation.metrics.items():
            values = layout.of_tasks(values)
            metrics[name] = jnp.mean(values, where=jnp.isfinite(values))
        state = state.replace(
            search=search,
            generation=state.generation + 1,
            elite=jax.tree.map(lambda new, old: jnp.where(improved, new, old), best, state.elite),
            elite_fitness=jnp.where(improved, fitness_of_mean, state.elite_fitness),
        )
        return state, metrics

    def _frames(self, draw: Any, validating: bool, tasks: int) -> jax.Array:
        """Return the environment steps of one agent on each task, [tasks] int32."""

        def frames(number):
            return jnp.asarray(self.problem.frames(draw(validating, number)), jnp.int32)

        return jax.vmap(frames)(jnp.arange(tasks))

    def _records(self, done: int, metrics: dict[str, np.ndarray], frames: int) -> list[PlainDict]:
        """Return a record for each generation of a block that began after `done` ones."""
        metrics, layout = dict(metrics), self.layout
        due = metrics.pop("validated").astype(np.int64) * layout.validation_seeds
        steps = layout.rows * metrics.pop("task_frames").sum(axis=1, dtype=np.int64)
        steps += due * metrics.pop("validation_frames").sum(axis=1, dtype=np.int64)
        return [
            {"generation": done + index, "frames": frames + end}
            | {name: values[index] for name, values in metrics.items()}
            for index, end in enumerate(np.cumsum(steps).tolist())
        ]


def _summary(scores: jax.Array) -> dict[str, jax.Array]:
    """Return metrics of the candidates' fitness [candidates], not finite where one failed."""
    finite = jnp.isfinite(scores)
    low, high = jnp.nanquantile(jnp.where(finite, scores, jnp.nan), jnp.array([0.1, 0.9]))
    mean = jnp.mean(scores, where=finite)
    return {
        "fitness_mean": mean,
        "fitness_std": jnp.sqrt(jnp.mean(jnp.square(scores - mean), where=finite)),
        "fitness_best": jnp.max(jnp.where(finite, scores, -jnp.inf)),
        "fitness_low": low,
        "fitness_high": high,
        "diverged": jnp.sum(~finite),
        "tied": jnp.max(scores) == jnp.min(scores),
    }
