"""Agents of a population as arrays."""

from collections.abc import Callable, Sequence
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
    """the learner's state; on the host and between programs, its random keys as plain numbers"""
    hyperparams: Hyperparams
    """its own, or None if all agents share them"""
    meta_params: MetaParams
    """its own, or None if all agents share them"""
    episodes: EpisodeSums
    """each field [windows]"""
    metrics: Any
    """the learner's metrics, summed over the updates of a window [windows]; None if not kept"""
    finite: Any
    """[] bool, whether the policy's parameters are finite; None if the metrics are kept, which
    include it"""


class Agents(NamedTuple):
    """Agents on the host: settings x seeds."""

    rows: Row
    """each leaf [settings x seeds, ...]"""
    seeds: int
    """of every setting"""
    updates: int
    """done so far"""

    @property
    def settings(self) -> int:
        """Number of settings."""
        return len(self.rows.episodes.steps) // self.seeds


class Trained(NamedTuple):
    """Results of complete trainings."""

    scores: Any
    """[settings, seeds]; NaN where an agent diverged or has no finished episode"""
    diverged: Any
    """[settings, seeds] whether an agent's parameters are not finite"""
    episodes: EpisodeSums
    """fields [settings, seeds, windows]"""


def vmap_rows(f: Callable[..., Any], rows: int) -> Callable[..., Any]:
    """Apply `jax.vmap`, but not to a single row, which makes a faster program."""
    if rows > 1:
        return jax.vmap(f)

    def single(*args):
        result = f(*jax.tree.map(lambda leaf: leaf[0], args))
        return jax.tree.map(lambda leaf: leaf[None], result)

    return single


def own_or_shared(
    shared: tuple[PyTree, PyTree, PyTree], hyperparams: Hyperparams, meta_params: MetaParams
) -> tuple[PyTree, PyTree, PyTree]:
    """Replace shared hyperparams and meta-parameters by an agent's own, unless they are None."""
    return (
        shared[0] if hyperparams is None else hyperparams,
        shared[1] if meta_params is None else meta_params,
        shared[2],
    )


def packed(tree: PyTree) -> PyTree:
    """Return a tree for the host, with random keys as plain numbers and no array of length 0.

    JAX 0.11.2 ends the process while it compiles a program for several devices whose input is an
    array of length 0.
    """

    def pack(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return leaf if leaf.size else jnp.zeros([max(n, 1) for n in leaf.shape], leaf.dtype)

    return jax.tree.map(pack, tree)


def unpacked(tree: PyTree, like: PyTree) -> PyTree:
    """Return the tree that was packed; `like` has its shapes, without leading axes."""

    def unpack(leaf, like):
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(leaf)
        return leaf if like.size else leaf[(..., *map(slice, like.shape))]

    return jax.tree.map(unpack, tree, like)


def repeated(settings: Sequence[PyTree], seeds: int, dtype: Any = None) -> PyTree:
    """Stack settings, and repeat each one for all its seeds."""
    return jax.tree.map(
        lambda *leaves: np.repeat(
            np.stack(leaves, dtype=dtype, casting="same_kind"), seeds, axis=0
        ),
        *settings,
    )
