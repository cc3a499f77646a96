"""Agents of a population as data: on the host, and on the way to the devices and back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl.types import EpisodeSums, Hyperparams, MetaParams, PyTree


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
    key: jax.Array | None = None
    """raw key that the agent was made from, for its evaluations; None without any"""
    evaluations: jax.Array | None = None
    """[evaluations] mean returns of the greedy policy, NaN before they are due; None without any"""


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


def packed(agent: PyTree) -> PyTree:
    """Return states for the host, with random keys as plain numbers and no array of length 0.

    JAX 0.11.2 ends the process while it compiles a program for several devices whose input is an
    array of length 0.
    """

    def pack(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return leaf if leaf.size else jnp.zeros([max(n, 1) for n in leaf.shape], leaf.dtype)

    return jax.tree.map(pack, agent)


def unpacked(agent: PyTree, like: PyTree) -> PyTree:
    """Return states that were packed; `like` has the shapes of one."""

    def unpack(leaf, like):
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(leaf)
        return leaf if like.size else leaf[(..., *map(slice, like.shape))]

    return jax.tree.map(unpack, agent, like)
