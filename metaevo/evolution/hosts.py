"""Several processes, on one or more machines, that run one experiment in lockstep.

Every process runs the same program; JAX makes all devices visible to each. The first process
decides and writes: what depends on a file, a clock or chance, the others receive from it, by the
functions of `metaevo.evolution.devices`.
"""

import json
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from metaevo.config import ConfigError
from purerl.types import PyTree


class LostError(Exception):
    """This process cannot go on while the others wait for it; the message is a single line."""


def connect(**given: Any) -> None:
    """Connect this process with the others; arguments of `jax.distributed.initialize`.

    Raises:
        ConfigError: if they cannot connect, or have different numbers of devices.
    """
    jax.config.update("jax_enable_preemption_service", False)  # which would take SIGTERM from us
    try:
        jax.distributed.initialize(**given)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"the processes cannot connect: {reason}") from None
    counts = {len(jax.local_devices(i)) for i in range(jax.process_count())}
    if len(counts) > 1:
        raise ConfigError(f"all processes need as many devices; they have {sorted(counts)}")


def gather(message: Any) -> list[Any]:
    """Gather a JSON-serialisable message from every process, in process order."""
    data = np.frombuffer(json.dumps(message).encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.int32(data.size))
    padded = np.zeros(1 << int(sizes.max()).bit_length(), np.uint8)  # few sizes compile
    padded[: data.size] = data
    rows = multihost_utils.process_allgather(padded)
    return [json.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def share(tree: PyTree) -> PyTree:
    """Broadcast the first process's tree of NumPy arrays to all processes, bit for bit."""
    leaves, structure = jax.tree.flatten(tree)
    data = b"".join(np.asarray(leaf).tobytes() for leaf in leaves)
    received = multihost_utils.broadcast_one_to_all(np.frombuffer(data, np.uint8)).tobytes()
    start, copies = 0, []
    for leaf in leaves:
        copies.append(np.frombuffer(received, leaf.dtype, leaf.size, start).reshape(leaf.shape))
        start += leaf.nbytes
    return jax.tree.unflatten(structure, copies)
