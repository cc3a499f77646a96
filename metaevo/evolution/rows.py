"""Rows of agents on the devices: in chunks, one after another, each vmapped.

A generation numbers its rows (`Layout`), and evaluates them inside of its program (`map_rows`).
Rows on the host are mapped by a `RowMap`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import devices
from purerl.types import PyTree

CACHE_BYTES = 2 * 2**20
"""Second-level cache of a current CPU core, into which a chunk of agents should fit."""


class Place(NamedTuple):
    """Place of a row in a generation; each [] int32."""

    validating: jax.Array
    """bool: whether the row evaluates the best point on a validation key"""
    task: jax.Array
    """number of the task in the generation, or of the validation task"""
    candidate: jax.Array
    """number of the candidate"""
    seed: jax.Array
    """number of the seed, among those of the candidate or of validation"""


@dataclass(frozen=True)
class Layout:
    """The candidate, task and seed of every row of a generation.

    The candidates come first, task by task, then the strategy's best point on the validation tasks.
    Every task fills whole chunks, so that the rows of a chunk share their task.
    """

    population_size: int
    seeds: int
    """seeds of a candidate on a task"""
    tasks: int
    validation_tasks: int
    validation_seeds: int
    stride: int
    """rows of a chunk on all devices"""

    @property
    def rows(self) -> int:
        """Rows of a task that are evaluated."""
        return self.population_size * self.seeds

    @property
    def task_rows(self) -> int:
        """Rows of a task, rounded up to whole chunks."""
        return -(-self.rows // self.stride) * self.stride

    @property
    def validation_rows(self) -> int:
        """Rows of a validation task, rounded up to whole chunks."""
        return -(-self.validation_seeds // self.stride) * self.stride

    @property
    def candidate_rows(self) -> int:
        """Rows of all candidates, before the validation rows."""
        return self.tasks * self.task_rows

    @property
    def all_rows(self) -> int:
        """Rows of the candidates and of validation."""
        return self.candidate_rows + self.validation_tasks * self.validation_rows

    def place(self, row: jax.Array) -> Place:
        """Return the place of a row; rows that only fill a chunk repeat the last candidate."""
        validating = row >= self.candidate_rows
        row = jnp.where(validating, row - self.candidate_rows, row)
        rows = jnp.where(validating, max(1, self.validation_rows), self.task_rows)
        task, index = row // rows, row % rows
        candidate = jnp.minimum(index // self.seeds, self.population_size - 1)
        seed = jnp.where(validating, index, index % self.seeds)
        return Place(validating, task, candidate, seed)

    def of_tasks(self, values: jax.Array) -> jax.Array:
        """Return the values of the candidates' rows, [tasks, population_size, seeds, ...]."""
        rest = values.shape[1:]
        own = values[: self.candidate_rows].reshape(self.tasks, self.task_rows, *rest)
        return own[:, : self.rows].reshape(self.tasks, self.population_size, self.seeds, *rest)

    def of_validation(self, values: jax.Array) -> jax.Array:
        """Return the values of validation, [validation_tasks, validation_seeds]."""
        own = values[self.candidate_rows :].reshape(self.validation_tasks, self.validation_rows)
        return own[:, : self.validation_seeds]


def vmap_rows(f: Callable[..., PyTree], in_axes: tuple[int | None, ...]) -> Callable[..., PyTree]:
    """Return `jax.vmap(f, in_axes)`, with axes 0 or None, without an axis for a single row.

    XLA's sums over products are slow for arrays [1, ...]: an update of PQN took 1.6 times as long.
    """

    def mapped(*arguments):
        own = [each for each, axis in zip(arguments, in_axes, strict=True) if axis == 0]
        if len(jax.tree.leaves(own)[0]) > 1:
            return jax.vmap(f, in_axes)(*arguments)
        single = [
            each if axis is None else jax.tree.map(lambda leaf: leaf[0], each)
            for each, axis in zip(arguments, in_axes, strict=True)
        ]
        return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), f(*single))

    return mapped


def map_rows(
    f: Callable[[jax.Array, PyTree], Any],
    *,
    shared: Callable[[jax.Array], PyTree] = lambda row: (),
    capacity: int,
    num_rows: jax.Array | int,
    chunk_size: int,
    num_devices: int,
) -> PyTree:
    """Inside a `spread` function: evaluate rows 0, 1, ... and gather the results on every device.

    Each chunk is vmapped, and a device runs its chunks one after another. The argument of `f`
    depends only on the row. Rounding depends on the chunk size, because XLA compiles different
    matrix products for different shapes, and training amplifies this: returns of the same PPO agent
    can differ by up to 20 between chunk sizes, as if its seed had changed.

    Args:
        f: maps a row's index (int32 scalar), and the values that its chunk shares, to a pytree.
        shared: maps the first row of a chunk to values that all its rows share. They are not
            batched, so a `lax.switch` or a loop length that depends on them costs one branch.
        capacity: length of the result's leading axis (static).
        num_rows: number of rows to evaluate (may be traced); the rest is left zero.
        chunk_size: rows that are vmapped on a device.
        num_devices: devices of the `spread`.
    """
    stride = chunk_size * num_devices
    chunks = -(-capacity // stride)
    offset = jax.lax.axis_index(devices.AXIS) * chunk_size

    @jax.jit  # traced once, although `eval_shape` comes first
    def chunk(rows):
        return vmap_rows(f, (0, None))(rows, shared(rows[0]))

    def evaluate_chunk(index, results):
        rows = index * stride + offset + jnp.arange(chunk_size, dtype=jnp.int32)
        values = chunk(jnp.minimum(rows, capacity - 1))
        return jax.tree.map(lambda buffer, value: buffer.at[index].set(value), results, values)

    shapes = jax.eval_shape(chunk, jnp.arange(chunk_size, dtype=jnp.int32))
    results = jax.tree.map(lambda leaf: jnp.zeros((chunks, *leaf.shape), leaf.dtype), shapes)
    # A rounded-up trip count would be traced through a float: integers only.
    trips = (jnp.asarray(num_rows, jnp.int32) + stride - 1) // stride
    results = jax.lax.fori_loop(0, trips, evaluate_chunk, results)

    def in_row_order(leaf):  # [devices, chunks, chunk_size, ...] -> [capacity, ...]
        return merged(jnp.swapaxes(leaf, 0, 1), 3)[:capacity]

    return jax.tree.map(in_row_order, jax.lax.all_gather(results, devices.AXIS))


def deal(tree: PyTree, chunk: slice, num_devices: int) -> PyTree:
    """Return the rows of a chunk, [devices, rows, ...], padded with the last row of the tree."""
    index = np.minimum(np.arange(chunk.start, chunk.stop), len(jax.tree.leaves(tree)[0]) - 1)
    each = len(index) // num_devices  # not -1: an array may be empty
    return jax.tree.map(lambda leaf: leaf[index].reshape(num_devices, each, *leaf.shape[1:]), tree)


def collect(dealt: Sequence[PyTree], rows: int | None) -> PyTree:
    """Return the first rows of chunks [devices, rows, ...] as a tree on the host [rows, ...]."""
    flat = [jax.tree.map(lambda leaf: merged(leaf, 2), jax.device_get(tree)) for tree in dealt]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:rows], *flat)


def merged(leaf: PyTree, axes: int) -> PyTree:
    """Return an array with its first axes merged; the other axes may have length 0."""
    return leaf.reshape(math.prod(leaf.shape[:axes]), *leaf.shape[axes:])


class RowMap:
    """A function of one row, compiled once and applied to any number of rows from the host.

    With several processes, each process has a separate `RowMap` on its local devices.

    Example:
        >>> squares = RowMap(lambda x: x * x, chunk_size=2)
        >>> squares(jnp.arange(5))
        array([ 0,  1,  4,  9, 16])
    """

    def __init__(
        self,
        f: Callable[..., PyTree],
        *,
        chunk_size: int,
        num_devices: int | None = None,
        shared: int = 0,
    ):
        """Bind `f(row, *arguments)`, with a number of `shared` arguments after the row."""
        self.num_devices = len(devices.select(num_devices, local=True))
        self.chunk_size = chunk_size
        in_axes = (0, *[None] * shared)
        self._apply = devices.spread(
            vmap_rows(f, in_axes), in_axes=in_axes, num_devices=num_devices, local=True
        )

    def __call__(
        self, rows: PyTree, progress: Callable[[int], Any] | None = None, *, shared: tuple = ()
    ) -> PyTree:
        """Return the results of rows, arrays [rows, ...], as NumPy arrays [rows, ...].

        `progress` is called with the number of rows just finished; `shared` are the arguments that
        all rows have in common.
        """
        total = len(jax.tree.leaves(rows)[0])
        # Few rows are spread over all devices in smaller chunks: one more compilation at most.
        stride = min(self.chunk_size, -(-total // self.num_devices)) * self.num_devices
        results = []
        for start in range(0, total, stride):
            dealt = deal(rows, slice(start, start + stride), self.num_devices)
            results.append(jax.device_get(self._apply(dealt, *shared)))
            if progress is not None:
                progress(min(stride, total - start))
        return collect(results, total)


def choose_chunk_size(rows: int, bytes_per_row: int, num_devices: int | None = None) -> int:
    """Choose how many of all rows (agents) a device evaluates at once.

    On a CPU, the parameters, optimizer state and batch of a chunk should fit into a core's cache,
    because every gradient step reads them; smaller chunks pay more overhead per operation. The
    limit is the number of agents that fit into 2 MiB, rounded down to a power of two from 1 to
    1024. On an accelerator, it is the number that fits into half of the free memory. More rows are
    split into chunks of about the same size.
    """
    per_device = -(-rows // (num_devices or len(jax.local_devices())))
    if jax.local_devices()[0].platform == "cpu":
        fitting = min(CACHE_BYTES // max(bytes_per_row, 1), 1024)
        limit = 1 << max(fitting.bit_length() - 1, 0)
    else:
        limit = max(devices.free_bytes() // 2 // max(bytes_per_row, 1), 1)
    return -(-per_device // -(-per_device // limit))
