"""Several processes, on one or more machines, that run one experiment in lockstep.

Every process runs the same program; JAX makes all devices visible to each. The first process
decides and writes: what depends on a file, a clock or chance, the others receive from it. With one
process, all functions here are trivial.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from metaevo.config import ConfigError
from purerl.types import PyTree

T = TypeVar("T")
_connected = False


class LostError(Exception):
    """This process cannot go on while the others wait for it; the message is a single line."""


def connect(**given: Any) -> None:
    """Connect this process with the others; arguments of `jax.distributed.initialize`.

    Raises:
        ConfigError: if they cannot connect, or have different numbers of devices.
    """
    global _connected
    jax.config.update("jax_enable_preemption_service", False)  # which would take SIGTERM from us
    try:
        jax.distributed.initialize(**given)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"the processes cannot connect: {reason}") from None
    _connected = True
    counts = {len(jax.local_devices(i)) for i in range(jax.process_count())}
    if len(counts) > 1:
        raise ConfigError(f"all processes need as many devices; they have {sorted(counts)}")


def is_connected() -> bool:
    """Return whether several processes are connected."""
    return _connected


def is_first() -> bool:
    """Return whether this is the first process, which decides and writes."""
    return jax.process_index() == 0


def gather(message: Any) -> list[PyTree]:
    """Gather a JSON-serialisable message from every process, in process order."""
    if not _connected:
        return [message]
    data = np.frombuffer(json.dumps(message).encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.int32(data.size))
    padded = np.zeros(1 << int(sizes.max()).bit_length(), np.uint8)  # few sizes compile
    padded[: data.size] = data
    rows = multihost_utils.process_allgather(padded)
    return [json.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def agree(value: T) -> T:
    """Return the first process's JSON-serialisable value in all processes."""
    answer: T = gather(value)[0]
    return answer


def agree_to_stop(requested: int | None) -> int | None:
    """Return the number of a signal that any process got, the same in all; None if none did."""
    return next((each for each in gather(requested) if each is not None), None)


def raise_on_all(f: Callable[[], T]) -> T:
    """Run a function in every process; a `ConfigError` in any process is raised in all."""
    if not _connected:
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


def share(tree: PyTree) -> PyTree:
    """Broadcast the first process's tree of NumPy arrays to all processes, bit for bit."""
    if not _connected:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    data = b"".join(np.asarray(leaf).tobytes() for leaf in leaves)
    received = multihost_utils.broadcast_one_to_all(np.frombuffer(data, np.uint8)).tobytes()
    start, copies = 0, []
    for leaf in leaves:
        copy = np.frombuffer(received, leaf.dtype, leaf.size, start)
        copies.append(copy.reshape(leaf.shape))
        start += copy.nbytes
    return jax.tree.unflatten(structure, copies)


def disconnect() -> None:
    """Disconnect the processes once all have called this; each continues or ends on its own."""
    global _connected
    if _connected:
        jax.distributed.shutdown()
        _connected = False
