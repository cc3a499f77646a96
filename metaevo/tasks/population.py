"""Agents of one learner, trained side by side on the devices, chunk by chunk.

    population = Population(task, meta_params, fitness)
    agents = population.init(keys, [hyperparams, ...])    # settings x seeds agents, untrained
    agents = population.advance(agents, 100)              # each agent takes 100 updates
    population.scores(agents)                             # [settings, seeds]
    population.train(keys, [hyperparams, ...]).scores     # from beginning to end

Another number of updates, settings or agents does not recompile, as long as the chunk size stays
the same.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.evolution.rows import RowMap, choose_chunk_size, collect, deal
from metaevo.tasks.fitness import FitnessConfig, Windows, all_finite, scores
from metaevo.tasks.task import Bound
from purerl.types import EnvParams, EpisodeSums, Hyperparams, MetaParams, PyTree

MAX_POINTS = 200
"""Default limit for the points of a learning curve."""
BLOCK_SECONDS = 5.0
"""Default limit for the seconds on the devices between two returns to the host."""


class Row(struct.PyTreeNode):
    """One agent and its learning curve; a chunk on the devices adds the axes [devices, rows].

    A curve has a fixed number of points, so that memory does not grow with the length of training,
    and logs do not depend on where a run was interrupted.
    """

    agent: PyTree
    """the learner's state; between programs, its random keys are plain numbers"""
    hyperparams: Hyperparams
    """its own, or None if all agents share them"""
    meta_params: MetaParams
    """its own, or None if all agents share them"""
    episodes: EpisodeSums
    """each field [windows]"""
    metrics: Any
    """the learner's metrics, summed over the updates of a window [windows]; None if not kept"""
    finite: jax.Array
    """[] bool, whether the policy's parameters are finite"""


class Agents(NamedTuple):
    """Agents on the host: settings x seeds."""

    rows: Row
    """each leaf [settings x seeds, ...]"""
    seeds: int
    """of every setting"""
    updates: int
    """done so far"""

    @property
    def diverged(self) -> np.ndarray:
        """[settings, seeds] whether an agent's parameters are not finite."""
        return ~np.asarray(self.rows.finite).reshape(-1, self.seeds)

    def select(self, settings: Sequence[int]) -> "Agents":
        """Return the agents of some settings, in that order."""
        index = np.asarray(settings, int)[:, np.newaxis] * self.seeds + np.arange(self.seeds)
        return self._replace(rows=jax.tree.map(lambda leaf: leaf[index.ravel()], self.rows))


class Trained(NamedTuple):
    """Results of complete trainings."""

    scores: Any
    """[settings, seeds]; NaN where an agent diverged or has no finished episode"""
    episodes: EpisodeSums
    """fields [settings, seeds, windows]"""


class Population:
    """A learner in an environment, for agents that differ in their keys and perhaps settings.

    Hyperparams and meta-parameters are inputs of the compiled program, of each agent or shared,
    because XLA makes slower programs around constants.

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
        """
        config = task.learner.config
        self.task, self.meta_params, self.fitness = task, meta_params, fitness
        self.num_updates, self.frames_per_update = config.num_updates, config.frames_per_update
        every = log_every or -(-self.num_updates // MAX_POINTS)
        self.windows = Windows(every, self.num_updates)
        self.agents, self._metrics = agents, metrics
        available = len(devices.select(num_devices, local=True))
        self.num_devices = min(available, agents or available)
        self.chunk_size = chunk_size or choose_chunk_size(
            agents or 2**30, task.working_set(meta_params), self.num_devices
        )
        self._like = jax.eval_shape(
            task.learner.init, jax.random.key(0), task.hyperparams, meta_params, task.env_params
        )
        own: PlainDict = {"num_devices": self.num_devices, "local": True}
        self._init = devices.spread(jax.vmap(self._init_row), **own)
        self._run = devices.spread(self._train_rows, in_axes=(0, None, None), donate=(0,), **own)
        self._whole = RowMap(
            self._train_row, chunk_size=self.chunk_size, num_devices=self.num_devices, shared=1
        )

    @property
    def frames(self) -> int:
        """Environment steps of one agent's whole training."""
        return self.num_updates * self.frames_per_update

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
        inputs = _inputs(keys, hyperparams, meta_params)
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
            rows, count = start, min(chunk.stop, total) - chunk.start
            for (rows,), length, _ in self.blocks([start], agents.updates, end):  # noqa: B007
                if progress is not None:
                    progress(count * length * self.frames_per_update)
            trained.append(jax.device_get(rows))
        return Agents(self.rows(trained, total), agents.seeds, end)

    def scores(self, agents: Agents) -> np.ndarray:
        """Return the fitness of the training so far [settings, seeds].

        NaN where an agent diverged, or where no episode ended and the fitness needs one.
        """
        known = -(-agents.updates // self.windows.every)
        episodes = jax.tree.map(lambda sums: sums[:, :known], agents.rows.episodes)
        found = scores(self.fitness, episodes, np.asarray(agents.rows.finite))
        return found.reshape(-1, agents.seeds)

    # --- On the devices ---------------------------------------------------------------------------

    def place(self, rows: Row) -> list[Row]:
        """Put agents from the host on the devices, in chunks [devices, rows, ...]."""
        return list(self._placed(rows))

    def _placed(self, rows: Row) -> Iterator[Row]:
        rows = rows.replace(agent=jax.device_get(_packed(rows.agent)))
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
        if meta_params is None:  # a copy for each agent is faster, see `_train_rows`
            meta_params = [self.meta_params] * len(hyperparams or [None])
        inputs = _inputs(keys, hyperparams, meta_params)
        count = None if progress is None else lambda agents: progress(agents * self.frames)
        return jax.tree.map(
            lambda leaf: leaf.reshape(-1, len(keys), *leaf.shape[1:]),
            self._whole(inputs, count, shared=(env_params,)),
        )

    # --- Inside the programs --------------------------------------------------------------------

    def _train_row(self, inputs: PlainDict, env_params: EnvParams) -> Trained:
        hyperparams, meta_params, _ = self._settings(inputs)
        task = self.task._replace(env_params=env_params)
        result = task.train(jax.random.wrap_key_data(inputs["key"]), hyperparams, meta_params)
        score, _ = task.score(self.fitness, result)
        return Trained(score, self.windows.pooled(result.episodes))

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
            agent, episodes, metrics = self.task.learner.update(agent, *settings)
            return agent, (episodes, metrics if self._metrics else None)

        over_rows = jax.vmap(update) if size > 1 else _on_a_single_row(update)

        def step(index, carry):
            agent, sums = carry
            agent, new = over_rows(agent, rows.hyperparams, meta_params)
            window = (done + index) // self.windows.every
            add = lambda total, each: total.at[:, window].add(each)  # noqa: E731
            return agent, jax.tree.map(add, sums, new)

        start = self._unpacked(rows.agent), (rows.episodes, rows.metrics)
        agent, (episodes, metrics) = jax.lax.fori_loop(0, updates, step, start)
        return rows.replace(
            agent=_packed(agent),
            episodes=episodes,
            metrics=metrics,
            finite=jax.vmap(self._is_finite)(agent),
        )

    def _init_row(self, inputs: PlainDict) -> Row:
        learner, settings = self.task.learner, self._settings(inputs)
        agent = learner.init(jax.random.wrap_key_data(inputs["key"]), *settings)
        _, *sums = jax.eval_shape(learner.update, agent, *settings)
        episodes, metrics = jax.tree.map(
            lambda leaf: jnp.zeros((self.windows.count, *leaf.shape), leaf.dtype), sums
        )
        return Row(
            _packed(agent),
            inputs.get("hyperparams"),
            inputs.get("meta_params"),
            episodes,
            metrics if self._metrics else None,
            self._is_finite(agent),
        )

    def _settings(self, own: PlainDict) -> tuple[PyTree, PyTree, PyTree]:
        """Return hyperparams, meta-parameters and environment parameters; `own` ones come first."""
        shared = self.task.hyperparams, self.meta_params, self.task.env_params
        hyperparams, meta_params, env_params = devices.as_inputs(shared)
        return (
            own.get("hyperparams", hyperparams), own.get("meta_params", meta_params), env_params
        )  # fmt: skip

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
        """Return states that were packed; `self._like` has the shapes of one."""

        def unpack(leaf, like):
            if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
                return jax.random.wrap_key_data(leaf)
            return leaf if like.size else leaf[(..., *map(slice, like.shape))]

        return jax.tree.map(unpack, agent, self._like)


def _packed(agent: PyTree) -> PyTree:
    """Return states for the host, with random keys as plain numbers and no array of length 0.

    JAX 0.11.2 ends the process while it compiles a program for several devices whose input is an
    array of length 0.
    """

    def pack(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return leaf if leaf.size else jnp.zeros([max(n, 1) for n in leaf.shape], leaf.dtype)

    return jax.tree.map(pack, agent)


def _on_a_single_row(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `jax.vmap` does to a single row, as a faster program."""

    def single(*rows):
        result = f(*jax.tree.map(lambda leaf: leaf[0], rows))
        return jax.tree.map(lambda leaf: leaf[None], result)

    return single


def _inputs(
    keys: jax.Array, hyperparams: Sequence[PyTree] | None, meta_params: Sequence[PyTree] | None
) -> PlainDict:
    """Return all settings with all keys, in NumPy, so that new numbers do not compile."""

    def repeated(settings: Sequence[PyTree], dtype: Any = None) -> PyTree:
        def stacked(*leaves: Any) -> np.ndarray:
            found = np.stack(leaves, dtype=dtype, casting="same_kind")
            return np.repeat(found, len(keys), axis=0)

        return jax.tree.map(stacked, *settings)

    settings = max(len(hyperparams or ()), len(meta_params or ()), 1)
    rows: PlainDict = {"key": np.tile(np.asarray(jax.random.key_data(keys)), (settings, 1))}
    if hyperparams is not None:
        rows["hyperparams"] = repeated(hyperparams, np.float32)
    if meta_params is not None:
        rows["meta_params"] = repeated(meta_params)
    return rows
