"""Device set-up, replication of state, and distribution of a population over devices.

On a CPU, each core becomes a separate single-threaded XLA device. For the small matrices used here
this is faster than one device with many threads, and the multi-device code path always runs. On
GPUs and TPUs, JAX's own devices are used.

    >>> metaevo.devices.memory_bytes()
"""

import math
import os
from collections.abc import Callable, Sequence, Set
from importlib.metadata import entry_points
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError
from metaevo.evolution import compilation_cache
from purerl.fast import use_cpu_arithmetic
from purerl.types import PyTree

AXIS = "devices"
"""Name of the mapped axis inside `spread`."""

SPLITTING_PASS = "cpu-parallel-task-assigner"
"""XLA pass that splits an operation among threads."""

CPU_FLAGS = {
    "--xla_cpu_multi_thread_eigen": "false",
    # XLA's default order, for many operations at once on separate threads, costs small operations
    # more than it gains (40% of the time of one PPO agent on 2 cores).
    "--xla_cpu_enable_concurrency_optimized_scheduler": "false",
    # By default XLA also splits single operations, however short, into tasks for other threads.
    # With this pass disabled, `purerl` uses faster arithmetic.
    "--xla_disable_hlo_passes": SPLITTING_PASS,
    # A device may wait long for the slowest one at the end of a generation, or for a machine that
    # was suspended. By default XLA then ends the process after 40 seconds.
    "--xla_cpu_collective_call_warn_stuck_timeout_seconds": "3600",
    "--xla_cpu_collective_call_terminate_timeout_seconds": "86400",
    "--xla_cpu_collective_timeout_seconds": "86400",  # the same between processes
}
"""Flags that `setup` adds to `XLA_FLAGS`."""

GPU_FLAGS = {
    # By default, XLA puts kernels into CUDA graphs between loops only: the host runs the loops, and
    # reads a value of the device wherever their length, or a branch, depends on it. With these a
    # whole update is one graph: a phase of DQN and an update of PPO each wait for the host once
    # less. Older drivers, without loops in graphs, ignore it.
    "--xla_gpu_enable_command_buffer": "+DYNAMIC_SLICE_FUSION,+WHILE,+CONDITIONAL",
    # Kernels of a graph that do not need each other's results run at the same time: one agent of
    # PPO is 1.45 times as fast on an H200.
    "--xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
}
"""Flags that `setup` adds if JAX has a plugin for CUDA (docs/explanation/performance.md)."""

COMPILE_FLAGS = {"--xla_backend_optimization_level": "1"}
"""Flags that `setup` adds if JAX finds only CPUs. Compared with the default level 3, kernels are as
fast, results agree up to rounding, and compilation takes three quarters of the time."""

CACHE_BYTES = 2 * 2**20
"""Second-level cache of a current CPU core, into which a chunk of agents should fit."""
UNKNOWN_BYTES = 8 * 2**30
"""Assumed memory of an accelerator that does not report its size."""


def setup(num_devices: int | None = None) -> None:
    """Make one single-threaded CPU device per core, and keep compiled programs.

    Values that the user has set in `XLA_FLAGS` or `JAX_NUM_CPU_DEVICES` are kept. For an
    accelerator, only the flags for GPUs and the cache of programs have an effect.

    Args:
        num_devices: CPU devices; by default the number of cores that this process may use.

    Raises:
        RuntimeError: if JAX has started already (importing gymnax is enough to start it).
    """
    flags = os.environ.get("XLA_FLAGS", "")
    chosen = "--xla_force_host_platform_device_count" in flags
    if not chosen and "JAX_NUM_CPU_DEVICES" not in os.environ:
        try:
            jax.config.update("jax_num_cpu_devices", num_devices or usable_cores())
        except RuntimeError as error:
            raise RuntimeError("call metaevo.devices.setup() before JAX is used") from error
    plugins = {each.name for each in entry_points(group="jax_plugins")}
    os.environ["XLA_FLAGS"] = flags = xla_flags(flags, plugins)
    use_cpu_arithmetic(SPLITTING_PASS in flags)
    compilation_cache.enable()


def xla_flags(chosen: str, plugins: Set[str]) -> str:
    """Return `XLA_FLAGS` with the flags of `setup` that the user has not chosen.

    `plugins` are the names of JAX's plugins for devices other than CPUs.
    """
    for name, value in {
        **CPU_FLAGS,
        **(GPU_FLAGS if any("cuda" in plugin for plugin in plugins) else {}),
        **({} if plugins else COMPILE_FLAGS),
    }.items():
        excluded = "hlo_passes" in name and "--xla_enable_hlo_passes_only" in chosen  # XLA aborts
        if name not in chosen and not excluded:
            chosen = f"{chosen} {name}={value}"
    return chosen.strip()


def check() -> None:
    """Start JAX's backend."""
    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:  # without CUDA, JAX asserts without a message
        wanted = os.environ.get("JAX_PLATFORMS", "")
        reason = str(error).partition("\n")[0] or "this JAX was installed without it"
        raise ConfigError(
            f"JAX_PLATFORMS = {wanted}: there is no such device ({reason}); unset it to use what "
            "there is; for NVIDIA GPUs: pip install 'metaevo[cuda12]'"
        ) from None


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux: a job may own a part of the machine only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def select(num_devices: int | None = None, *, local: bool = False) -> list[jax.Device]:
    """Return the first `num_devices` devices (all by default), equally many from each process.

    Args:
        num_devices: how many, over all processes.
        local: use only this process's devices, for computations that it runs alone.
    """
    if local or jax.process_count() == 1:
        return jax.local_devices()[:num_devices]
    if num_devices is None:
        return jax.devices()
    share = num_devices // jax.process_count()
    processes = range(jax.process_count())
    return [device for i in processes for device in jax.local_devices(i)[:share]]


def check_number(key: str, wanted: int | None) -> None:
    """Raise `ConfigError` if a setting wants more devices than there are."""
    if wanted is not None and wanted > len(jax.devices()):
        raise ConfigError(f"{key} = {wanted}: there are {len(jax.devices())} devices")


def replicate(tree: PyTree, num_devices: int | None = None) -> PyTree:
    """Give every leaf a leading axis with one copy per device, each on its device.

    State that a `spread` function takes and returns keeps this axis and placement, which avoids
    recompilation.
    """
    count, sharding = len(select(num_devices)), _sharding(num_devices)

    def copy(leaf):
        leaf = jnp.asarray(leaf, jnp.result_type(leaf))  # strongly typed, as what comes back
        if sharding.is_fully_addressable:
            return jax.device_put(jnp.broadcast_to(leaf, (count, *leaf.shape)), sharding)
        # Each process places its own copies; no process can reach all devices.
        shape = (count, *leaf.shape)
        return jax.make_array_from_callback(shape, sharding, lambda _: leaf[None])

    return jax.tree.map(copy, tree)


def place(tree: PyTree, num_devices: int | None = None, *, local: bool = False) -> PyTree:
    """Put every leaf [devices, ...] on the devices, a slice each, as `spread` functions do."""
    return jax.device_put(tree, _sharding(num_devices, local=local))


def _sharding(num_devices: int | None, *, local: bool = False) -> jax.sharding.NamedSharding:
    mesh = jax.sharding.Mesh(np.array(select(num_devices, local=local)), (AXIS,))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(AXIS))


def first(tree: PyTree) -> PyTree:
    """Return the copy of a replicated tree on this process's first device.

    Only that device is accessed. Indexing the whole array would run a program on all devices, and
    on a CPU two such programs at once can wait for each other's threads.
    """
    return jax.tree.map(lambda leaf: leaf.addressable_data(0)[0], tree)


def spread(
    f: Callable,
    *,
    in_axes: Any = 0,
    num_devices: int | None = None,
    donate: tuple[int, ...] = (),
    local: bool = False,
) -> PyTree:
    """Apply `jax.pmap` over the devices that `select` returns, with a named axis.

    If the devices belong to several processes, call only the result of `lower(...).compile()`,
    which takes and returns arrays as made by `replicate`.
    """
    return jax.pmap(
        f,
        axis_name=AXIS,
        in_axes=in_axes,
        devices=select(num_devices, local=local),
        donate_argnums=donate,
    )


def as_inputs(tree: PyTree) -> PyTree:
    """Hide values from XLA's constant folding, inside a compiled function.

    A program that is compiled around the constants of an environment is fused differently and
    slower: one PPO agent on CartPole takes 1.6 times the CPU time.
    """
    return jax.lax.optimization_barrier(tree)


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
    offset = jax.lax.axis_index(AXIS) * chunk_size

    @jax.jit  # traced once, although `eval_shape` comes first
    def chunk(rows):
        return jax.vmap(f, in_axes=(0, None))(rows, shared(rows[0]))

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

    return jax.tree.map(in_row_order, jax.lax.all_gather(results, AXIS))


def chunks(rows: int, chunk_size: int, num_devices: int, *, fitting: bool = False) -> list[slice]:
    """Cover rows with chunks of `chunk_size` on each device; the last one may reach too far.

    If `fitting`, the last chunks are smaller, powers of two, where fewer rows are left.
    """
    covered, start = [], 0
    while start < rows:
        needed = -(-(rows - start) // num_devices)
        size = min(chunk_size, 1 << (needed - 1).bit_length()) if fitting else chunk_size
        covered.append(slice(start, start + size * num_devices))
        start += size * num_devices
    return covered


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
        self.num_devices = len(select(num_devices, local=True))
        self.chunk_size = chunk_size
        in_axes = (0, *[None] * shared)
        self._apply = spread(
            jax.vmap(f, in_axes), in_axes=in_axes, num_devices=num_devices, local=True
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
        chunk_size = min(self.chunk_size, -(-total // self.num_devices))
        results = []
        for chunk in chunks(total, chunk_size, self.num_devices):
            dealt = deal(rows, chunk, self.num_devices)
            results.append(jax.device_get(self._apply(dealt, *shared)))
            if progress is not None:
                progress(min(chunk.stop, total) - chunk.start)
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
        limit = max(free_bytes() // 2 // max(bytes_per_row, 1), 1)
    return even_chunk_size(per_device, limit)


def even_chunk_size(rows: int, limit: int) -> int:
    """Return the size of the fewest chunks of at most `limit` rows, all about as large."""
    return -(-rows // -(-rows // limit))


def memory_bytes() -> int | None:
    """Return the memory of a device of this process, if it is known; on a CPU, the machine's."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (device.memory_stats() or {}).get("bytes_limit")


def check_memory(what: str, needed: int) -> None:
    """Raise `ConfigError` if `what` needs more bytes than a device has in total."""
    present = memory_bytes()
    if present is not None and needed > present:
        raise ConfigError(
            f"{what} would take {needed / 2**30:,.1f} GiB of memory at least; "
            f"there are {present / 2**30:,.1f}"
        )


def bytes_of_program(program: Any) -> int:
    """Return the bytes that a compiled program needs on a device, by XLA's analysis."""
    memory = program.memory_analysis()
    return int(
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )


def num_bytes(tree: PyTree) -> int:
    """Return the bytes of all arrays (or their shapes) in a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def free_bytes() -> int:
    """Return the free memory of a device of this process; on a CPU, its share of the machine's."""
    device, present = jax.local_devices()[0], memory_bytes() or UNKNOWN_BYTES
    if device.platform == "cpu":
        return present // jax.local_device_count()
    return present - (device.memory_stats() or {}).get("bytes_in_use", 0)
