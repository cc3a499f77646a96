"""Agents of one learner, trained side by side on the devices, chunk by chunk.

    population = Population(task, meta_params, fitness)
    agents = population.init(keys, [hyperparams, ...])    # settings x seeds agents, untrained
    agents = population.advance(agents, 100)              # each agent takes 100 updates
    population.scores(agents)                             # [settings, seeds]
    population.train(keys, [hyperparams, ...]).scores     # from beginning to end

Another number of updates, settings or agents does not recompile, as long as the chunk size stays
the same.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.evolution.rows import collect, deal, vmap_rows
from metaevo.tasks.agents import Agents, Row, packed, unpacked
from metaevo.tasks.fitness import FitnessConfig, all_finite, fitness, measures
from metaevo.tasks.task import Bound
from metaevo.tasks.trainings import Trainings, inputs_of
from purerl.parts import training
from purerl.parts.own_task import OwnTask
from purerl.types import EnvParams, EpisodeSums, MetaParams, PyTree

BLOCK_SECONDS = 5.0
"""Default limit for the seconds on the devices between two returns to the host."""


class Population(Trainings):
    """A learner in an environment, for agents that are trained step by step, or as a whole.

    The agents differ in their keys and perhaps settings. Hyperparams and meta-parameters are inputs
    of the compiled program, of each agent or shared, because XLA makes slower programs around
    constants.

    Examples:
        >>> settings = metaevo.read_settings("train", "train/q_learning_grid_world", {"seeds": 4})
        >>> population: metaevo.Population = settings.population()
        >>> agents = population.train(population.keys(seed=0))
    """

    def __init__(
        self,
        task: Bound,
        meta_params: MetaParams,
        fitness: FitnessConfig,
        *,
        agents: int | None = None,
        log_every: int | None = None,
        metrics: bool = False,
        chunk_size: int | None = None,
        num_devices: int | None = None,
        rungs: Sequence[int] = (),
    ):
        """Bind the parts; compiles on the first `init`.

        Args:
            task: the learner in its environment, with hyperparams for agents without their own.
            meta_params: for agents without their own, or an example.
            fitness: weights of the fitness.
            agents: number of agents from beginning to end, so that all chunks have the same size.
                By default any number: then the last chunks are smaller, powers of two.
            log_every: updates of one point of the learning curves; by default 200 points at most.
            metrics: keep the learner's metrics in addition to the episodes.
            chunk_size: agents at once on a device; by default chosen by `metaevo.devices`.
            num_devices: at most that many; by default all.
            rungs: numbers of updates after which scores are needed, in addition to the end: the
                greedy policy is evaluated there, too, if the fitness depends on it.

        Raises:
            ConfigError: if the greedy policy cannot be evaluated in the task.
        """
        super().__init__(
            task,
            meta_params,
            fitness,
            agents=agents,
            log_every=log_every,
            chunk_size=chunk_size,
            num_devices=num_devices,
        )
        task = self.task
        self.evaluated = np.empty(0, int)
        """[evaluations] numbers of updates after which the greedy policy is evaluated"""
        if (planned := task.evaluations) is not None:
            ends = planned.updates_before(np.arange(planned.times), self.num_updates)
            self.evaluated = np.union1d(np.asarray(ends), np.asarray(rungs, int))
        self._metrics = metrics
        self._like = jax.eval_shape(
            task.learner.init, jax.random.key(0), task.hyperparams, meta_params, task.env_params
        )
        own: PlainDict = {"num_devices": self.num_devices, "local": True}
        self._init = devices.spread(jax.vmap(self._init_row), **own)
        self._run = devices.spread(self._train_rows, in_axes=(0, None, None), donate=(0,), **own)

    @property
    def frames(self) -> int:
        """Environment steps of one agent's whole training, with those of its evaluations."""
        return self.frames_after(self.num_updates)

    def frames_after(self, updates: int) -> int:
        """Return the environment steps of one agent's first updates, with its evaluations."""
        planned, done = self.task.evaluations, int(np.sum(self.evaluated <= updates))
        return updates * self.frames_per_update + (done * planned.frames if planned else 0)

    @property
    def template(self) -> Row:
        """The shapes of what `rows` returns."""
        keys = jax.random.split(jax.random.key(0), self.agents or 1)
        row = jax.eval_shape(
            lambda keys: jax.vmap(self._init_row)({"key": jax.random.key_data(keys)}), keys
        )
        return row.replace(agent=jax.eval_shape(self._unpacked, row.agent))

    # --- On the host ----------------------------------------------------------------------------

    def keys(self, seed: int) -> jax.Array:
        """Return the keys [agents] of the agents of `metaevo train` with this seed."""
        return keys_for(seed, Purpose.TRAINING, self.agents or 1)

    def init(
        self,
        keys: jax.Array,
        hyperparams: Sequence[PyTree] | None = None,
        meta_params: Sequence[PyTree] | None = None,
    ) -> Agents:
        """Return untrained agents, setting by setting, each with all keys [seeds].

        By default there is one setting: the population's hyperparams and meta-parameters.
        """
        inputs = inputs_of(keys, hyperparams, meta_params)
        total = len(inputs["key"])
        chunks = [
            jax.device_get(self._init(deal(inputs, chunk, self.num_devices)))
            for chunk in self._chunks(total)
        ]
        return Agents(self.rows(chunks, total), len(keys), 0)

    def advance(
        self, agents: Agents, updates: int, progress: Callable[[int], Any] | None = None
    ) -> Agents:
        """Train all agents for some more updates; the devices hold a single chunk.

        `progress` is called with the environment steps just done, and may raise to stop.
        """
        total, end = len(agents.rows.finite), agents.updates + updates
        trained = []
        for chunk, start in zip(self._chunks(total), self._placed(agents.rows), strict=True):
            rows, count, done = start, min(chunk.stop, total) - chunk.start, agents.updates
            for (rows,), length, _ in self.blocks([start], agents.updates, end):  # noqa: B007
                frames = self.frames_after(done + length) - self.frames_after(done)
                done += length
                if progress is not None:
                    progress(count * frames)
            trained.append(jax.device_get(rows))
        return Agents(self.rows(trained, total), agents.seeds, end)

    def scores(self, agents: Agents) -> np.ndarray:
        """Return the fitness of the training so far [settings, seeds].

        NaN where an agent diverged, or where no episode ended, or no evaluation was due, and the
        fitness needs one.
        """
        known = -(-agents.updates // self.windows.every)
        episodes = jax.tree.map(lambda sums: sums[:, :known], agents.rows.episodes)
        evaluations = None
        if agents.rows.evaluations is not None:
            last = int(np.sum(self.evaluated <= agents.updates)) - 1
            evaluations = np.asarray(agents.rows.evaluations)[:, [max(last, 0)]]  # may be NaN
        found = jax.device_get(_fitness_of_agents(self.fitness, episodes, evaluations))
        return np.where(agents.diverged, np.nan, found.reshape(-1, agents.seeds))

    def evaluation_curves(self, rows: Row) -> np.ndarray | None:
        """Return the evaluations at the points of the learning curves [agents, windows].

        A point has the last one since the point before, or NaN; None without evaluations.
        """
        if rows.evaluations is None:
            return None
        found = np.full((len(rows.finite), self.windows.count), np.nan)
        for end, returns in zip(self.evaluated, np.asarray(rows.evaluations).T, strict=True):
            found[:, np.searchsorted(self.windows.ends(), end)] = returns
        return found

    # --- On the devices ---------------------------------------------------------------------------

    def start(self, seed: int) -> list[Row]:
        """Return untrained agents on the devices, see `keys`."""
        return self.place(self.init(self.keys(seed)).rows)

    def place(self, rows: Row) -> list[Row]:
        """Put agents from the host on the devices, in chunks [devices, rows, ...]."""
        return list(self._placed(rows))

    def _placed(self, rows: Row) -> Iterator[Row]:
        rows = rows.replace(agent=jax.device_get(packed(rows.agent)))
        # Placed as they come back, or the second block would compile again.
        placement = devices.sharding(self.num_devices, local=True)
        for chunk in self._chunks(len(rows.finite)):
            yield jax.device_put(deal(rows, chunk, self.num_devices), placement)

    def run(self, chunks: list[Row], done: int, updates: int) -> list[Row]:
        """Train for some updates after `done` ones; 0 updates only compile.

        The buffers of `chunks` are donated.
        """
        return [self._run(chunk, np.int32(done), np.int32(updates)) for chunk in chunks]

    def blocks(
        self, chunks: list[Row], done: int, end: int, seconds: float = BLOCK_SECONDS
    ) -> Iterator[tuple[list[Row], int, float]]:
        """Train from `done` to `end` updates, in blocks of about so many seconds.

        Yields:
            the agents on the devices, which the next block overwrites; updates of the block, none
            in the first one, which compiles; and the seconds that it took.
        """
        length = 0
        while done < end:
            before = time.monotonic()
            chunks = jax.block_until_ready(self.run(chunks, done, length))
            elapsed, done = time.monotonic() - before, done + length
            yield chunks, length, elapsed
            length = max(1, min(8 * length, int(seconds / elapsed * length), end - done))

    def rows(self, chunks: list[Row], total: int | None = None) -> Row:
        """Return the agents on the host, with random keys as such [agents, ...].

        `total` is by default the number of agents that the population has from the beginning.
        """
        rows = collect(chunks, total or self.agents)
        return rows.replace(agent=self._unpacked(rows.agent))

    # --- Inside the programs --------------------------------------------------------------------

    def _train_rows(self, rows: Row, done: jax.Array, updates: jax.Array) -> Row:
        """Train rows [chunk] on a device for some more updates, after `done` ones."""
        size, meta_params = len(rows.finite), rows.meta_params
        hyperparams, shared, env_params = self._settings({})  # not in the loop, or XLA folds them
        if meta_params is None:  # a copy for each agent: products with shared weights take twice
            meta_params = devices.as_inputs(  # the CPU time
                jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))), shared)
            )

        def update(agent, own, meta_params):
            settings = hyperparams if own is None else own, meta_params, env_params
            agent, episodes, metrics = training.update(self.task.learner, agent, *settings)
            return agent, (episodes, metrics if self._metrics else None)

        def step(index, carry):
            agent, sums, evaluations = carry
            agent, new = vmap_rows(update, (0, 0, 0))(agent, rows.hyperparams, meta_params)
            window = (done + index) // self.windows.every
            add = lambda total, each: total.at[:, window].add(each)  # noqa: E731
            if evaluations is not None:
                at = done + index + 1
                evaluations = self._evaluated(evaluations, agent, rows.key, env_params, at)
            return agent, jax.tree.map(add, sums, new), evaluations

        start = self._unpacked(rows.agent), (rows.episodes, rows.metrics), rows.evaluations
        agent, (episodes, metrics), evaluations = jax.lax.fori_loop(0, updates, step, start)
        return rows.replace(
            agent=packed(agent),
            episodes=episodes,
            metrics=metrics,
            finite=jax.vmap(self._is_finite)(agent),
            evaluations=evaluations,
        )

    def _evaluated(
        self,
        evaluations: jax.Array,
        agent: PyTree,
        key: Any,
        env_params: EnvParams,
        updates: jax.Array,
    ) -> jax.Array:
        """Write the mean returns of agents [chunk] after so many updates, if they are due."""
        planned: Any = self.task.evaluations
        learner, ends = self.task.learner, jnp.asarray(self.evaluated)
        place = jnp.searchsorted(ends, updates)

        def measure(agent, key):
            own = agent.env_params if isinstance(learner, OwnTask) else env_params
            policy, key = learner.policy(agent), jax.random.wrap_key_data(key)
            return planned.measure(learner, policy, key, own, updates)

        def write(evaluations):
            return evaluations.at[:, place].set(jax.vmap(measure)(agent, key))

        return jax.lax.cond(ends[place] == updates, write, lambda same: same, evaluations)

    def _init_row(self, inputs: PlainDict) -> Row:
        learner, settings = self.task.learner, self._settings(inputs)
        agent = learner.init(jax.random.wrap_key_data(inputs["key"]), *settings)
        _, *sums = jax.eval_shape(learner.update, agent, *settings)
        episodes, metrics = jax.tree.map(
            lambda leaf: jnp.zeros((self.windows.count, *leaf.shape), leaf.dtype), sums
        )
        count = len(self.evaluated)
        return Row(
            packed(agent),
            inputs.get("hyperparams"),
            inputs.get("meta_params"),
            episodes,
            metrics if self._metrics else None,
            self._is_finite(agent),
            inputs["key"] if count else None,
            jnp.full(count, jnp.nan) if count else None,
        )

    def _is_finite(self, agent: PyTree) -> jax.Array:
        return all_finite(self.task.learner.policy(agent))

    def _chunks(self, total: int) -> list[slice]:
        """Return slices of all rows; of any number, the last ones are smaller powers of two."""
        covered, start = [], 0
        while start < total:
            needed = -(-(total - start) // self.num_devices)
            fitting = self.chunk_size if self.agents else 1 << (needed - 1).bit_length()
            stop = start + min(self.chunk_size, fitting) * self.num_devices
            covered.append(slice(start, stop))
            start = stop
        return covered

    def _unpacked(self, agent: PyTree) -> PyTree:
        return unpacked(agent, self._like)


@functools.partial(jax.jit, static_argnums=0)
def _fitness_of_agents(
    config: FitnessConfig, episodes: EpisodeSums, evaluations: jax.Array | None
) -> jax.Array:
    def of_agent(sums, returns):
        return fitness(config, measures(sums, evaluations=returns))

    return jax.vmap(of_agent)(episodes, evaluations)
