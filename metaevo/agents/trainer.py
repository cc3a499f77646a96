"""Training the trials of one static group: compiled once, for any hyperparams and any length.

    trainer = Trainer(task, meta_params, hyperparams, fitness)
    agents = trainer.start([hyperparams, ...], keys)      # trials x seeds agents, untrained
    agents = trainer.advance(agents, 100)                 # every one of them takes 100 updates
    agents = trainer.select(agents, [0, 3])               # go on with two of the trials
    trainer.scores(agents)                                # [trials, seeds]

Between two calls agents lie on the host, so that however many there are, the devices hold one
chunk, and those that were given up cost nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from metaevo.agents.fitness import FitnessConfig, measures
from metaevo.agents.fitness import fitness as score_of
from metaevo.agents.train_learner import Task, working_set
from metaevo.parallel import devices
from purerl.types import EpisodeSums

MAX_WINDOWS = 200
"""Points of a learning curve, at most."""
BLOCK_SECONDS = 5.0
"""The longest time between two looks at the host (at least one update)."""


class Row(struct.PyTreeNode):
    """One agent, its settings and its learning curve."""

    agent: Any
    """the learner's state, its random keys as plain numbers"""
    hyperparams: Any
    episodes: EpisodeSums
    """each field [windows]"""
    finite: jax.Array
    """[] bool, whether the policy's parameters are"""


class Agents(NamedTuple):
    """All agents of some trials, on the host."""

    rows: Row
    """each leaf [trials x seeds, ...]"""
    seeds: int
    """of every trial"""
    updates: int
    """done so far"""

    @property
    def trials(self) -> int:
        """How many trials these are."""
        return len(self.rows.finite) // self.seeds


class Trainer:
    """A learner in an environment, for agents that differ in hyperparams and random keys."""

    def __init__(
        self,
        task: Task,
        meta_params: Any,
        hyperparams: Any,
        fitness: FitnessConfig,
        *,
        chunk_size: int | None = None,
        num_devices: int | None = None,
    ):
        """Bind the parts; nothing is compiled before `start`.

        Args:
            task: the learner with its static parts, and its environment.
            meta_params: of the functions in the learner's slots.
            hyperparams: an example, of the structure that `start` will be given.
            fitness: how a training run is scored.
            chunk_size: agents at once on a device; by default chosen by `metaevo.devices`.
            num_devices: at most that many; by default all.
        """
        config = task.learner.config
        self.task, self.hyperparams, self.fitness = task, hyperparams, fitness
        self._learner, self._others = task.learner, (meta_params, task.env_params)
        self._score = jax.jit(jax.vmap(lambda sums: score_of(fitness, measures(sums))))
        self.num_updates = config.num_updates
        self.frames_per_update = config.frames_per_update
        self.num_devices = len(jax.devices()[:num_devices])
        self.chunk_size = chunk_size or devices.choose_chunk_size(
            2**30, working_set(task, hyperparams, meta_params), self.num_devices
        )
        self._updates_per_window = -(-config.num_updates // MAX_WINDOWS)
        self._num_windows = -(-config.num_updates // self._updates_per_window)
        key = jax.random.key(0)
        self._template = jax.eval_shape(task.learner.init, key, hyperparams, *self._others)
        self._init = devices.spread(jax.vmap(self._init_row), num_devices=self.num_devices)
        self._run = devices.spread(
            self.train_rows, in_axes=(0, None, None), num_devices=self.num_devices, donate=(0,)
        )

    @property
    def rows_at_once(self) -> int:
        """Agents that all devices train at once."""
        return self.chunk_size * self.num_devices

    @property
    def memory_bytes(self) -> int:
        """Bytes of the agents of a chunk; their network's activations come on top."""
        row = jax.eval_shape(self._init_row, jax.random.key(0), self.hyperparams)
        leaves = jax.tree.leaves(row)
        return self.chunk_size * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)

    def start(self, settings: Sequence[Any], keys: jax.Array) -> Agents:
        """Return untrained agents, trial by trial.

        Args:
            settings: the hyperparams of every trial.
            keys: [seeds], shared by all trials.
        """
        hyperparams = self._repeated(settings, len(keys))
        index = np.tile(np.arange(len(keys)), len(settings))
        parts = [
            self._fetch(self._init(self._deal(keys[index], part), self._deal(hyperparams, part)))
            for part in self._chunks(len(index))
        ]
        return Agents(self._joined(parts, len(index)), len(keys), 0)

    def advance(
        self, agents: Agents, updates: int, progress: Callable[[int], Any] | None = None
    ) -> Agents:
        """Train all agents for some updates; another number of them compiles nothing.

        Args:
            agents: as they are.
            updates: how many more.
            progress: called with the environment steps just done; may raise to stop.
        """
        total = len(agents.rows.finite)
        parts, length = [], 1
        for part in self._chunks(total):
            # Placed as they come back, or the second block would be compiled anew.
            rows = devices.place(self._deal(agents.rows, part), self.num_devices)
            done = 0
            count = min(part.stop, total) - part.start
            while done < updates:
                length = max(1, min(length, updates - done))
                before = time.monotonic()
                rows = self._run(rows, np.int32(agents.updates + done), np.int32(length))
                jax.block_until_ready(rows)
                elapsed = time.monotonic() - before
                done += length
                if progress is not None:
                    progress(count * length * self.frames_per_update)
                # The first block compiles; afterwards its length follows from its time.
                length = min(8 * length, int(BLOCK_SECONDS * length / max(elapsed, 1e-9)))
            parts.append(self._fetch(rows))
        return Agents(self._joined(parts, total), agents.seeds, agents.updates + updates)

    def select(self, agents: Agents, trials: Sequence[int]) -> Agents:
        """Return the agents of some trials, in that order; the others are given up."""
        seeds = np.arange(agents.seeds)
        index = (np.asarray(trials, dtype=int)[:, np.newaxis] * agents.seeds + seeds).ravel()
        return agents._replace(rows=jax.tree.map(lambda leaf: leaf[index], agents.rows))

    def with_hyperparams(self, agents: Agents, settings: Sequence[Any]) -> Agents:
        """Return the same agents with other hyperparams, a setting for every trial."""
        hyperparams = self._repeated(settings, agents.seeds)
        return agents._replace(rows=agents.rows.replace(hyperparams=hyperparams))

    def scores(self, agents: Agents) -> np.ndarray:
        """Return the fitness of the training so far [trials, seeds].

        NaN where parameters are not finite, or where no episode ended and the fitness needs one.
        """
        known = -(-agents.updates // self._updates_per_window)
        episodes = jax.tree.map(lambda sums: sums[:, :known], agents.rows.episodes)
        scores = np.where(agents.rows.finite, jax.device_get(self._score(episodes)), np.nan)
        return scores.reshape(agents.trials, agents.seeds)

    def diverged(self, agents: Agents) -> np.ndarray:
        """Return which agents have parameters that are not finite [trials, seeds]."""
        return ~np.asarray(agents.rows.finite).reshape(agents.trials, agents.seeds)

    def curves(self, agents: Agents) -> tuple[np.ndarray, np.ndarray]:
        """Return environment steps [points] and mean returns [trials, seeds, points] so far.

        NaN where no episode ended.
        """
        known = -(-agents.updates // self._updates_per_window)
        sums = jax.tree.map(lambda leaf: leaf[:, :known], agents.rows.episodes)
        returns = np.where(sums.episodes > 0, sums.returns / np.maximum(sums.episodes, 1), np.nan)
        ends = np.minimum(np.arange(1, known + 1) * self._updates_per_window, agents.updates)
        return ends * self.frames_per_update, returns.reshape(agents.trials, agents.seeds, known)

    def _repeated(self, settings: Sequence[Any], seeds: int) -> Any:
        stacked = jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *settings)
        return jax.tree.map(lambda leaf: np.repeat(leaf, seeds, axis=0), stacked)

    def _chunks(self, total: int) -> list[slice]:
        """Cover the rows: whole chunks, and a smaller one, a power of two, for what is left."""
        covered: list[slice] = []
        start = 0
        while start < total:
            needed = -(-(total - start) // self.num_devices)
            size = min(self.chunk_size, 1 << (needed - 1).bit_length())
            covered.append(slice(start, start + size * self.num_devices))
            start += size * self.num_devices
        return covered

    def _deal(self, rows: Any, part: slice) -> Any:
        """Put rows on the devices [devices, chunk, ...]; the last one fills what is left."""
        total = len(jax.tree.leaves(rows)[0])
        index = np.minimum(np.arange(part.start, part.stop), total - 1)
        return jax.tree.map(
            lambda leaf: leaf[index].reshape(self.num_devices, -1, *leaf.shape[1:]), rows
        )

    def _fetch(self, rows: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.device_get(rows))

    def _joined(self, parts: list[Any], total: int) -> Any:
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:total], *parts)

    def _init_row(self, key: jax.Array, hyperparams: Any) -> Row:
        agent = self._learner.init(key, hyperparams, *self._others)
        _, episodes, _ = jax.eval_shape(self._learner.update, agent, hyperparams, *self._others)
        empty = jax.tree.map(lambda leaf: jnp.zeros(self._num_windows, leaf.dtype), episodes)
        return Row(_packed(agent), hyperparams, empty, self._is_finite(agent))

    def train_rows(self, rows: Row, done: jax.Array, updates: jax.Array) -> Row:
        """On a device: train rows [chunk] for some more updates, after `done` ones."""

        def update(agent, hyperparams):
            agent, episodes, _ = self._learner.update(agent, hyperparams, *self._others)
            return agent, episodes

        def step(index, carry):
            agent, sums = carry
            agent, episodes = jax.vmap(update)(agent, rows.hyperparams)
            window = (done + index) // self._updates_per_window
            add = lambda total, new: total.at[:, window].add(new)  # noqa: E731
            return agent, jax.tree.map(add, sums, episodes)

        agent = self._unpacked(rows.agent)
        agent, episodes = jax.lax.fori_loop(0, updates, step, (agent, rows.episodes))
        finite = jax.vmap(self._is_finite)(agent)
        return Row(_packed(agent), rows.hyperparams, episodes, finite)

    def _is_finite(self, agent: Any) -> jax.Array:
        leaves = jax.tree.leaves(self._learner.policy(agent))
        return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))

    def _unpacked(self, agent: Any) -> Any:
        def wrap(leaf, like):
            is_key = jnp.issubdtype(like.dtype, jax.dtypes.prng_key)
            return jax.random.wrap_key_data(leaf) if is_key else leaf

        return jax.tree.map(wrap, agent, self._template)


def _packed(agent: Any) -> Any:
    """Return the state with its random keys as plain numbers, which lie on the host like others."""

    def unwrap(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(leaf) if is_key else leaf

    return jax.tree.map(unwrap, agent)
