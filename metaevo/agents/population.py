"""Many agents of one learner, trained side by side: they differ in their random keys only.

population = Population(learner, hyperparams, meta_params, env_params, agents=32, log_every=10)
state = population.init(keys)                       # [devices, chunks, chunk size, ...]
state = population.run(state, done=0, updates=100)  # one compiled call, whatever the numbers
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from metaevo.agents.train_learner import Task, working_set
from metaevo.parallel import devices
from purerl.types import EpisodeSums, Learner


class State(struct.PyTreeNode):
    """One agent and its learning curve; a population adds the axes [devices, chunks, chunk size].

    A curve has a fixed number of windows of `log_every` updates, so that memory does not grow with
    the length of training, and what is logged does not depend on where a run was interrupted.
    """

    agent: Any
    """the learner's state"""
    episodes: EpisodeSums
    """each field [windows]"""
    metrics: dict[str, jax.Array]
    """the learner's metrics, summed over the updates of a window [windows]"""


class Population:
    """Agents dealt to the devices; on each device they are trained chunk by chunk."""

    def __init__(
        self,
        learner: Learner,
        hyperparams: Any,
        meta_params: Any,
        env_params: Any,
        *,
        agents: int,
        log_every: int,
        chunk_size: int | None = None,
        num_devices: int | None = None,
    ):
        """Bind the parts; nothing is compiled before `init`.

        Args:
            learner: with its static parts bound.
            hyperparams: of all agents.
            meta_params: of all agents.
            env_params: of all agents.
            agents: how many.
            log_every: updates of one window of the learning curves.
            chunk_size: agents at once on a device; by default chosen by `metaevo.devices`.
            num_devices: at most that many; by default all.
        """
        self.learner, self.agents, self.log_every = learner, agents, log_every
        self._others = hyperparams, meta_params, env_params
        self.num_devices = min(len(jax.devices()[:num_devices]), agents)
        per_device = -(-agents // self.num_devices)
        if chunk_size is None:
            task = Task("", learner, env_params)
            limit = devices.choose_chunk_size(
                agents, working_set(task, hyperparams, meta_params), self.num_devices
            )
            chunk_size = -(-per_device // -(-per_device // limit))  # equal chunks, little padding
        self.chunk_size = chunk_size
        self._shape = self.num_devices, -(-per_device // chunk_size), chunk_size
        self.num_windows = -(-learner.config.num_updates // log_every)
        self._init = devices.spread(self._init_device, num_devices=self.num_devices)
        self._run = devices.spread(
            self._run_device, in_axes=(0, None, None), num_devices=self.num_devices, donate=(0,)
        )

    @property
    def template(self) -> State:
        """The shapes of what `rows` returns."""
        return jax.eval_shape(jax.vmap(self._init_agent), self._keys())

    def init(self, keys: jax.Array) -> State:
        """Return untrained agents, the i-th made from the i-th key [agents]."""
        return self._init(self._deal(keys))

    def run(self, state: State, done: int, updates: int) -> State:
        """Train for some updates; another number of them does not recompile.

        Args:
            state: its buffers are given up.
            done: updates so far.
            updates: how many more; 0 only compiles.
        """
        return self._run(state, np.int32(done), np.int32(updates))

    def rows(self, tree: Any) -> Any:
        """Return a population's tree on the host and without padding: [agents, ...]."""

        def flatten(leaf):
            return leaf.reshape(-1, *leaf.shape[len(self._shape) :])[: self.agents]

        return jax.tree.map(flatten, jax.device_get(tree))

    def place(self, rows: State) -> State:
        """Return the population's state from `rows`, on the devices."""
        return devices.place(self._deal(rows), self.num_devices)

    def curves(self, state: State) -> tuple[EpisodeSums, dict[str, np.ndarray]]:
        """Return the episodes and metrics of all agents on the host, each [agents, windows]."""
        return self.rows((state.episodes, state.metrics))

    def _deal(self, rows: Any) -> Any:
        """Give rows the axes [devices, chunks, chunk size]; the last row fills what is left."""
        index = np.minimum(np.arange(np.prod(self._shape)), self.agents - 1)
        return jax.tree.map(
            lambda leaf: leaf[index].reshape(*self._shape, *np.shape(leaf)[1:]), rows
        )

    def _keys(self) -> jax.Array:
        return jax.random.split(jax.random.key(0), self.agents)

    def _init_agent(self, key: jax.Array) -> State:
        agent = self.learner.init(key, *self._others)
        _, episodes, metrics = jax.eval_shape(
            lambda agent: self.learner.update(agent, *self._others), agent
        )
        episodes, metrics = jax.tree.map(
            lambda leaf: jnp.zeros((self.num_windows, *leaf.shape), leaf.dtype), (episodes, metrics)
        )
        return State(agent, episodes, metrics)

    def _init_device(self, keys: jax.Array) -> State:
        return jax.lax.map(jax.vmap(self._init_agent), keys)

    def _run_device(self, state: State, done: jax.Array, updates: jax.Array) -> State:
        """Train chunk after chunk, each for all updates, so that a chunk stays in cache."""

        def update(index, chunk):
            agent, *sums = jax.vmap(lambda agent: self.learner.update(agent, *self._others))(
                chunk.agent
            )
            window = (done + index) // self.log_every
            episodes, metrics = jax.tree.map(
                lambda total, new: total.at[:, window].add(new),
                (chunk.episodes, chunk.metrics),
                tuple(sums),
            )
            return State(agent, episodes, metrics)

        def train_chunk(index, state):
            chunk = jax.tree.map(lambda leaf: leaf[index], state)
            chunk = jax.lax.fori_loop(0, updates, update, chunk)
            return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), state, chunk)

        return jax.lax.fori_loop(0, self._shape[1], train_chunk, state)
