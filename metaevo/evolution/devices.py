"""Devices: set-up, distribution of a population, memory, and agreement of several processes.

On a CPU, each core becomes a separate single-threaded XLA device. For the small matrices used here
this is faster than one device with many threads, and the multi-device code path always runs. On
GPUs and TPUs, JAX's own devices are used.

    >>> metaevo.devices.memory_bytes()
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Set
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from filelock import FileLock, Timeout

from metaevo.config import ConfigError
from purerl.fast import use_cpu_arithmetic
from purerl.types import PyTree

T = TypeVar("T")

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

STORED_BYTES = 2 * 2**30
"""Size of the folder of compiled programs, beyond which the least recently used are removed."""
UNKNOWN_BYTES = 8 * 2**30
"""Assumed memory of an accelerator that does not report its size."""


def setup(num_devices: int | None = None) -> None:
    """Make one single-threaded CPU device per core, and keep compiled programs.

    Values that the user has set in `XLA_FLAGS` or `JAX_NUM_CPU_DEVICES` are kept. For an
    accelerator, only the flags for GPUs and the cache of programs have an effect.

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
    _keep_programs()


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


def _keep_programs() -> None:
    """Keep what takes a second or longer to compile in `~/.cache/metaevo/xla`.

    JAX distinguishes programs, versions, devices and flags, but not the kinds of processors that
    share a home folder, so each kind has a folder. A user's own `JAX_COMPILATION_CACHE_DIR` and
    `JAX_ENABLE_COMPILATION_CACHE=false` are respected. Where the folder cannot be written, each
    process compiles on its own.
    """
    chosen = jax.config.values
    if chosen["jax_compilation_cache_dir"] or not chosen["jax_enable_compilation_cache"]:
        return
    about, cpuinfo = platform.processor() + platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        about += "".join(line for line in lines if line.startswith(("model name", "flags")))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kind = hashlib.sha256(about.encode()).hexdigest()[:12]
    folder = Path(base) / "metaevo" / "xla" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds machine code that is run
        if not os.access(folder, os.W_OK) or folder.stat().st_uid != os.getuid():
            return
        # JAX never replaces a program that a kill or a full disk has left half written, and warns
        # about it in every process. A finished `...-cache` has a file `...-atime`.
        with FileLock(folder / ".lockfile", timeout=0):
            for path in folder.glob("*-cache"):
                if not path.with_name(f"{path.name.removesuffix('-cache')}-atime").exists():
                    path.unlink(missing_ok=True)
    except Timeout:  # a running process uses the lock: the next start will do
        pass
    except OSError:
        return
    jax.config.update("jax_compilation_cache_max_size", STORED_BYTES)
    jax.config.update("jax_compilation_cache_dir", str(folder))


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

    `local` are only this process's devices, for computations that it runs alone.
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
    count, placement = len(select(num_devices)), sharding(num_devices)

    def copy(leaf):
        leaf = jnp.asarray(leaf, jnp.result_type(leaf))  # strongly typed, as what comes back
        shape = (count, *leaf.shape)  # of several processes, each places its own copies
        return jax.make_array_from_callback(shape, placement, lambda _: leaf[None])

    return jax.tree.map(copy, tree)


def sharding(num_devices: int | None, *, local: bool = False) -> jax.sharding.NamedSharding:
    """Return how `spread` functions place arrays [devices, ...]: a slice on each device."""
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
            f"{what} would take {as_text(needed)} of memory at least; there are {as_text(present)}"
        )


def bytes_of_program(program: Any) -> int:
    """Return the bytes that a compiled program needs on a device, by XLA's analysis."""
    memory = program.memory_analysis()
    given = memory.argument_size_in_bytes - memory.alias_size_in_bytes
    return int(given + memory.output_size_in_bytes + memory.temp_size_in_bytes)


def num_bytes(tree: PyTree) -> int:
    """Return the bytes of all arrays (or their shapes) in a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def free_bytes() -> int:
    """Return the free memory of a device of this process; on a CPU, its share of the machine's."""
    device, present = jax.local_devices()[0], memory_bytes() or UNKNOWN_BYTES
    if device.platform == "cpu":
        return present // jax.local_device_count()
    return present - (device.memory_stats() or {}).get("bytes_in_use", 0)


def as_text(count: int) -> str:
    """Return a number of bytes as text, such as `1.2 GiB`."""
    unit, size = ("GiB", 2**30) if count >= 0.1 * 2**30 else ("MiB", 2**20)
    return f"{count / size:.1f} {unit}"


# --- Several processes, which run one experiment in lockstep: see `metaevo.evolution.hosts` ------


def is_first() -> bool:
    """Return whether this is the first process, which decides and writes."""
    return jax.process_index() == 0


def gather(message: Any) -> list[Any]:
    """Gather a JSON-serialisable message from every process, in process order."""
    if not jax.distributed.is_initialized():
        return [message]
    from jax.experimental.multihost_utils import process_allgather

    data = np.frombuffer(json.dumps(message).encode(), np.uint8)
    sizes = process_allgather(np.int32(data.size))
    padded = np.zeros(1 << int(sizes.max()).bit_length(), np.uint8)  # few sizes compile
    padded[: data.size] = data
    rows = process_allgather(padded)
    return [json.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def agree(value: T) -> T:
    """Return the first process's JSON-serialisable value in all processes."""
    first: T = gather(value)[0]
    return first


def agree_to_stop(requested: int | None) -> int | None:
    """Return the number of a signal that any process got, the same in all; None if none did."""
    return next((each for each in gather(requested) if each is not None), None)


def share(tree: PyTree) -> PyTree:
    """Broadcast the first process's tree of NumPy arrays to all processes, bit for bit."""
    if not jax.distributed.is_initialized():
        return tree
    from jax.experimental.multihost_utils import broadcast_one_to_all

    leaves, structure = jax.tree.flatten(tree)
    data = b"".join(np.asarray(leaf).tobytes() for leaf in leaves)
    received = broadcast_one_to_all(np.frombuffer(data, np.uint8)).tobytes()
    start, copies = 0, []
    for leaf in leaves:
        copies.append(np.frombuffer(received, leaf.dtype, leaf.size, start).reshape(leaf.shape))
        start += leaf.nbytes
    return jax.tree.unflatten(structure, copies)


def raise_on_all(f: Callable[[], T]) -> T:
    """Run a function in every process; a `ConfigError` in any process is raised in all."""
    if not jax.distributed.is_initialized():
        return f()
    result, error = None, None
    try:
        result = f()
    except ConfigError as raised:
        error = str(raised)
    if errors := [each for each in gather(error) if each is not None]:
        raise ConfigError(errors[0])
    return result  # type: ignore[return-value]


def broadcast_from_first(f: Callable[[], T]) -> T:
    """Run a function in the first process; return its JSON-serialisable result in all.

    Raises:
        ConfigError: in all, if the function raised one.
    """
    return agree(raise_on_all(lambda: f() if is_first() else None))  # type: ignore[return-value]


def disconnect() -> None:
    """Disconnect the processes once all have called this; each continues or ends on its own."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
