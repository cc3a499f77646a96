"""Agents of one learner, trained side by side on the devices, chunk by chunk.

    population = Population(task, hyperparams, meta_params, fitness)
    agents = population.init(keys, [hyperparams, ...])    # settings x seeds agents, untrained
    agents = population.advance(agents, 100)              # each agent takes 100 updates
    agents = population.select(agents, [0, 3])            # keep two of the settings
    population.scores(agents)                             # [settings, seeds]

Between two calls these agents are in host memory, and the devices hold a single chunk. Agents can
also stay on the devices:

    chunks = population.place(population.init(keys).rows)
    chunks = population.run(chunks, 0, 100)
    population.rows(chunks)                               # on the host

`train` only keeps their scores and curves. Another number of updates, settings or agents does not
recompile, as long as the chunk size stays the same.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.tasks.agents import (
    Agents,
    Row,
    Trained,
    own_or_shared,
    packed,
    repeated,
    unpacked,
    vmap_rows,
)
from metaevo.tasks.bound import Bound, fitness_of, train, working_set
from metaevo.tasks.fitness import FitnessConfig, Windows, all_finite, scores
from purerl.types import EnvParams, EpisodeSums, Hyperparams, MetaParams, PyTree

MAX_POINTS = 200
"""Default limit for the points of a learning curve."""
BLOCK_SECONDS = 5.0
"""Maximum seconds on the devices between two returns to the host (at least one update)."""


class Population:
    """A learner in an environment, for agents that differ in their keys and perhaps settings.

    Hyperparams and meta-parameters are inputs of the compiled program, of each agent or shared,
    because XLA makes slower programs around constants.
    """

    def __init__(
        self,
        task: Bound,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        fitness: FitnessConfig,
        *,
        agents: int | None = None,
        log_every: int | None = None,
        metrics: bool = False,
        chunk_size: int | None = None,
        num_devices: int | None = None,
    ):
        """Bind the parts; compiles on the first `init`.

        Args:
            task: the learner in its environment.
            hyperparams: the default for agents, or an example if each agent has its own.
            meta_params: the same.
            fitness: weights of the fitness.
            agents: number of agents from beginning to end, so that all chunks have the same size.
                By default any number: then the last chunks are smaller, powers of two.
            log_every: updates of one point of the learning curves; by default 200 points at most.
            metrics: keep the learner's metrics in addition to the episodes.
            chunk_size: agents at once on a device; by default chosen by `metaevo.devices`.
            num_devices: at most that many; by default all.
        """
        config = task.learner.config
        self.task, self.fitness = task, fitness
        self.hyperparams, self.meta_params = hyperparams, meta_params
        self.num_updates, self.frames_per_update = config.num_updates, config.frames_per_update
        self.windows = (
            Windows(log_every, config.num_updates)
            if log_every
            else Windows.at_most(MAX_POINTS, config.num_updates)
        )
        self.agents, self._metrics = agents, metrics
        available = len(devices.select(num_devices, local=True))
        self.num_devices = min(available, agents or available)
        self.chunk_size = chunk_size or devices.choose_chunk_size(
            agents or 2**30, working_set(task, hyperparams, meta_params), self.num_devices
        )
        self._like = jax.eval_shape(
            task.learner.init, jax.random.key(0), hyperparams, meta_params, task.env_params
        )
        own: PlainDict = {"num_devices": self.num_devices, "local": True}
        self._init = devices.spread(jax.vmap(self._init_row), **own)
        self._run = devices.spread(self.train_rows, in_axes=(0, None, None), donate=(0,), **own)
        self._whole = devices.RowMap(
            self._train_row, chunk_size=self.chunk_size, num_devices=self.num_devices, shared=1
        )

    @property
    def rows_at_once(self) -> int:
        """Agents that all devices train at once."""
        return self.chunk_size * self.num_devices

    @property
    def frames(self) -> int:
        """Environment steps of one agent's whole training."""
        return self.num_updates * self.frames_per_update

    @property
    def memory_bytes(self) -> int:
        """Bytes of the agents of a chunk; their network's activations come on top."""
        return devices.num_bytes(self._shape(self.chunk_size))

    @property
    def template(self) -> Row:
        """The shapes of what `rows` returns."""
        return self._shape(self.agents)

    def _shape(self, agents: int | None) -> Row:
        keys = jax.random.split(jax.random.key(0), agents or 1)
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
        inputs = self._inputs(np.asarray(jax.random.key_data(keys)), hyperparams, meta_params)
        total = len(inputs["key"])
        rows = [
            jax.device_get(self._init(devices.deal(inputs, chunk, self.num_devices)))
            for chunk in self._chunks(total)
        ]
        return Agents(devices.collect(rows, total), len(keys), 0)

    def advance(
        self, agents: Agents, updates: int, progress: Callable[[int], Any] | None = None
    ) -> Agents:
        """Train all agents for some more updates, one chunk after the other.

        `progress` is called with the environment steps just done, and may raise to stop.
        """
        total = agents.settings * agents.seeds
        trained, length = [], 1
        for chunk in self._chunks(total):
            rows = self._place(agents.rows, chunk)
            done = 0
            while done < updates:
                length = max(1, min(length, updates - done))
                before = time.monotonic()
                (rows,) = self.run([rows], agents.updates + done, length)
                jax.block_until_ready(rows)
                elapsed = time.monotonic() - before
                done += length
                if progress is not None:
                    count = min(chunk.stop, total) - chunk.start
                    progress(count * length * self.frames_per_update)
                # The first block compiles; afterwards its length follows from its time.
                length = min(8 * length, int(BLOCK_SECONDS * length / max(elapsed, 1e-9)))
            trained.append(jax.device_get(rows))
        return Agents(devices.collect(trained, total), agents.seeds, agents.updates + updates)

    def select(self, agents: Agents, settings: Sequence[int]) -> Agents:
        """Return the agents of some settings, in that order."""
        seeds = np.arange(agents.seeds)
        index = (np.asarray(settings, dtype=int)[:, np.newaxis] * agents.seeds + seeds).ravel()
        return agents._replace(rows=jax.tree.map(lambda leaf: leaf[index], agents.rows))

    def states(self, agents: Agents) -> PyTree:
        """Return the learner's states, with random keys as such [settings x seeds, ...]."""
        return self._unpacked(agents.rows.agent)

    def scores(self, agents: Agents) -> np.ndarray:
        """Return the fitness of the training so far [settings, seeds].

        NaN where an agent diverged, or where no episode ended and the fitness needs one.
        """
        known = -(-agents.updates // self.windows.every)
        episodes = jax.tree.map(lambda sums: sums[:, :known], agents.rows.episodes)
        found = scores(self.fitness, episodes, agents.rows.finite)
        return found.reshape(-1, agents.seeds)

    def diverged(self, agents: Agents) -> np.ndarray:
        """Return which agents have parameters that are not finite [settings, seeds]."""
        return ~np.asarray(agents.rows.finite).reshape(-1, agents.seeds)

    # --- On the devices, for a population of a given number of agents ---------------------------

    def place(self, rows: Row) -> list[Row]:
        """Put agents from the host on the devices, in chunks [devices, rows, ...]."""
        rows = rows.replace(agent=packed(rows.agent))
        return [self._place(rows, chunk) for chunk in self._chunks(len(rows.episodes.steps))]

    def run(self, chunks: list[Row], done: int, updates: int) -> list[Row]:
        """Train for some updates after `done` ones; 0 updates only compile.

        The buffers of `chunks` are donated.
        """
        return [self._run(chunk, np.int32(done), np.int32(updates)) for chunk in chunks]

    def rows(self, chunks: list[Row]) -> Row:
        """Return the agents on the host, with random keys as such [agents, ...]."""
        rows = devices.collect(chunks, self.agents)
        return rows.replace(agent=self._unpacked(rows.agent))

    def curves(self, chunks: list[Row]) -> tuple[EpisodeSums, dict[str, np.ndarray]]:
        """Return the episodes and metrics of all agents on the host, each [agents, windows]."""
        return devices.collect([(each.episodes, each.metrics) for each in chunks], self.agents)

    # --- Whole trainings ------------------------------------------------------------------------

    def train(
        self,
        keys: jax.Array,
        hyperparams: Sequence[PyTree] | None = None,
        meta_params: Sequence[PyTree] | None = None,
        progress: Callable[[int], Any] | None = None,
        env_params: EnvParams | None = None,
    ) -> Trained:
        """Train from beginning to end; only scores and curves leave the devices.

        The arguments are those of `init`. `progress` is called with the environment steps just
        done. Other `env_params` than the task's, of the same shapes, do not compile again.
        """
        env_params = self.task.env_params if env_params is None else env_params
        if meta_params is None:  # a copy for each agent is faster, see `train_rows`
            meta_params = [self.meta_params] * len(hyperparams or [None])
        inputs = self._inputs(np.asarray(jax.random.key_data(keys)), hyperparams, meta_params)
        count = None if progress is None else lambda agents: progress(agents * self.frames)
        return jax.tree.map(
            lambda leaf: leaf.reshape(-1, len(keys), *leaf.shape[1:]),
            self._whole(inputs, count, shared=(env_params,)),
        )

    def _train_row(self, inputs: PlainDict, env_params: EnvParams) -> Trained:
        key = jax.random.wrap_key_data(inputs["key"])
        hyperparams, meta_params, _ = self._settings(inputs)
        task = self.task._replace(env_params=env_params)
        result = train(task, key, hyperparams, meta_params)
        score = fitness_of(self.fitness, self.task, result)
        diverged = ~self._is_finite(result.state)
        return Trained(score, diverged, self.windows.pooled(result.episodes))

    # --- Inside the programs --------------------------------------------------------------------

    def train_rows(self, rows: Row, done: jax.Array, updates: jax.Array) -> Row:
        """Train rows [chunk] on a device for some more updates, after `done` ones."""
        learner, shared = self.task.learner, self._shared()  # outside the loop, or XLA folds them
        size, meta_params = len(rows.episodes.steps), rows.meta_params
        if meta_params is None:  # a copy for each agent: products with shared weights take twice
            meta_params = devices.as_inputs(  # the CPU time
                jax.tree.map(
                    lambda leaf: jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))), shared[1]
                )
            )

        def update(agent, hyperparams, meta_params):
            settings = own_or_shared(shared, hyperparams, meta_params)
            agent, episodes, metrics = learner.update(agent, *settings)
            return agent, (episodes, metrics if self._metrics else None)

        over_rows = vmap_rows(update, size)

        def step(index, carry):
            agent, sums = carry
            agent, new = over_rows(agent, rows.hyperparams, meta_params)
            window = (done + index) // self.windows.every
            add = lambda total, each: total.at[:, window].add(each)  # noqa: E731
            return agent, jax.tree.map(add, sums, new)

        start = self._unpacked(rows.agent), (rows.episodes, rows.metrics)
        agent, (episodes, metrics) = jax.lax.fori_loop(0, updates, step, start)
        finite = None if self._metrics else jax.vmap(self._is_finite)(agent)
        return Row(packed(agent), rows.hyperparams, rows.meta_params, episodes, metrics, finite)

    def _init_row(self, inputs: PlainDict) -> Row:
        learner, settings = self.task.learner, self._settings(inputs)
        agent = learner.init(jax.random.wrap_key_data(inputs["key"]), *settings)
        _, *sums = jax.eval_shape(learner.update, agent, *settings)
        episodes, metrics = jax.tree.map(
            lambda leaf: jnp.zeros((self.windows.count, *leaf.shape), leaf.dtype), sums
        )
        return Row(
            packed(agent),
            inputs.get("hyperparams"),
            inputs.get("meta_params"),
            episodes,
            metrics if self._metrics else None,
            None if self._metrics else self._is_finite(agent),
        )

    def _settings(self, inputs: PlainDict) -> tuple[PyTree, PyTree, PyTree]:
        own = inputs.get("hyperparams"), inputs.get("meta_params")
        return own_or_shared(self._shared(), *own)

    def _shared(self) -> tuple[PyTree, PyTree, PyTree]:
        """Return hyperparams, meta-parameters and environment parameters of the population."""
        return devices.as_inputs((self.hyperparams, self.meta_params, self.task.env_params))

    def _is_finite(self, agent: PyTree) -> jax.Array:
        return all_finite(self.task.learner.policy(agent))

    def _inputs(
        self,
        keys: np.ndarray,
        hyperparams: Sequence[PyTree] | None = None,
        meta_params: Sequence[PyTree] | None = None,
    ) -> PlainDict:
        """Return all settings with all keys, in NumPy, so that new numbers do not compile."""
        settings = max(len(hyperparams or ()), len(meta_params or ()), 1)
        rows: PlainDict = {"key": np.tile(keys, (settings, 1))}
        if hyperparams is not None:
            rows["hyperparams"] = repeated(hyperparams, len(keys), np.float32)
        if meta_params is not None:
            rows["meta_params"] = repeated(meta_params, len(keys))
        return rows

    def _chunks(self, total: int) -> list[slice]:
        return devices.chunks(total, self.chunk_size, self.num_devices, fitting=self.agents is None)

    def _place(self, rows: Row, chunk: slice) -> Row:
        # Placed as they come back, or the second block would compile again.
        dealt = devices.deal(rows, chunk, self.num_devices)
        return devices.place(dealt, self.num_devices, local=True)

    def _unpacked(self, agent: PyTree) -> PyTree:
        return unpacked(agent, self._like)
