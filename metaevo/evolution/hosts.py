"""Several processes, on one or more machines, that run one experiment in lockstep.

Every process runs the same command; JAX connects them and makes all devices visible to each. The
first process parses the settings, decides and writes. The others receive from it everything that
depends on a file, a clock or chance, and compute their share. With one process, all functions here
are trivial.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from metaevo.config import ConfigError, DiskError, exit_on_config_error
from metaevo.config.plain import PlainDict
from purerl.types import PyTree

T = TypeVar("T")

CONNECT_SECONDS = 300
"""Seconds that a starting process waits for the others."""

_STATUS = re.compile(
    r"(ABORTED|CANCELLED|DATA_LOSS|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN)"
    ": "
)
"""Pattern that matches the beginning of an XLA error message."""

_connected = False
_filter: "subprocess.Popen[bytes] | None" = None


class LostError(Exception):
    """This process cannot go on while the others wait for it; the message is a single line."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of several processes to a script's parser."""
    group = parser.add_argument_group("several processes (docs/how-to/scaling.md)")
    group.add_argument(
        "--coordinator",
        default=os.environ.get("JAX_COORDINATOR_ADDRESS") or None,
        metavar="HOST:PORT",
        help="where the first process listens (or JAX_COORDINATOR_ADDRESS)",
    )
    group.add_argument(
        "--processes",
        type=int,
        default=os.environ.get("JAX_NUM_PROCESSES") or None,
        metavar="N",
        help="how many there are (or JAX_NUM_PROCESSES); 1 keeps the tasks of a cluster apart",
    )
    group.add_argument(
        "--process",
        type=int,
        default=os.environ.get("JAX_PROCESS_ID") or None,
        metavar="I",
        help="which one this is, from 0 (or JAX_PROCESS_ID)",
    )
    group.add_argument(
        "--distributed",
        action="store_true",
        help="let JAX find all that out from the cluster; SLURM and Open MPI need no flag",
    )
    group.add_argument(
        "--heartbeat",
        type=int,
        default=100,
        metavar="SECONDS",
        help="after which a silent process counts as dead and all others end (default: 100)",
    )


@exit_on_config_error()
def join(argv: Sequence[str]) -> None:
    """Connect this process with the others, if any, before JAX's backend starts."""
    global _connected
    wanted = _wanted(argv)
    if wanted is None:
        return
    # The service would take SIGTERM away from us; XLA's collectives on a CPU, which wait for the
    # slowest process, would give up after half an hour.
    jax.config.update("jax_enable_preemption_service", False)
    if wanted.get("process_id"):
        _wait_for(wanted["coordinator_address"])
    try:
        jax.distributed.initialize(**wanted, initialization_timeout=CONNECT_SECONDS)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        if "coordinator_address" not in wanted:
            reason += " (no cluster that JAX knows? name --coordinator, --processes, --process)"
        elif wanted["process_id"] == 0 and isinstance(error, RuntimeError):
            reason += f" (is the port of {wanted['coordinator_address']} free?)"
        raise ConfigError(f"the processes cannot connect: {reason}") from None
    _connected = True
    _filter_stderr()
    counts = {len(jax.local_devices(i)) for i in range(jax.process_count())}
    if len(counts) > 1:
        raise ConfigError(f"all processes need as many devices; they have {sorted(counts)}")
    if not is_first():
        warnings.simplefilter("ignore")  # the first process shows them


def _filter_stderr() -> None:
    """Filter C++ output on stderr in a separate program; leave Python's stderr unchanged."""
    global _filter
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    _filter = subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__).with_name("stderr_filter.py")), _lost("")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert _filter.stdin is not None
    os.dup2(_filter.stdin.fileno(), 2)


def _lost(reason: str) -> str:
    """Return the error message for a process that lost contact with the others."""
    detail = f" ({reason})" if reason else ""
    return (
        f"error: process {jax.process_index()} cannot go on: another process has died or cannot be "
        f"reached{detail}; once all have ended, start them again with --resume"
    )


def _wanted(argv: Sequence[str]) -> PlainDict | None:
    """Return the arguments of `jax.distributed.initialize`, or None for a single process."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_flags(parser)
    try:
        args, rest = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from None
    if {"-h", "--help"} & set(rest) or args.processes == 1:
        return None
    if args.heartbeat < 1:
        raise ConfigError(f"--heartbeat {args.heartbeat}: must be at least 1 second")
    heartbeat = {"heartbeat_timeout_seconds": args.heartbeat}
    names = "coordinator", "processes", "process"
    missing = [f"--{name}" for name in names if getattr(args, name) is None]
    if len(missing) == len(names):
        return heartbeat if args.distributed or _tasks() > 1 else None
    if missing:
        raise ConfigError(f"several processes also need {', '.join(missing)}")
    host, _, port = args.coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--coordinator {args.coordinator}: must be HOST:PORT")
    if not 0 <= args.process < args.processes:
        raise ConfigError(f"--process {args.process}: must be from 0 to {args.processes - 1}")
    return {
        "coordinator_address": args.coordinator,
        "num_processes": args.processes,
        "process_id": args.process,
        "cluster_detection_method": "deactivate",
        **heartbeat,
    }


def _wait_for(coordinator: str) -> None:
    """Wait until the first process listens; otherwise JAX would end in a stack trace."""
    host, _, port = coordinator.rpartition(":")
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:  # its name may not be known yet either
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"nobody listens at --coordinator {coordinator}: {error}"
                ) from None
            time.sleep(0.2)
        else:
            return


def _tasks() -> int:
    """Return how many tasks SLURM or Open MPI started together with this process.

    A batch script or an interactive shell sees the tasks of its job, but runs in a single process.
    """
    environ = os.environ
    if "SLURM_STEP_NODELIST" in environ and "SLURM_PROCID" in environ:
        return int(environ.get("SLURM_STEP_NUM_TASKS", environ.get("SLURM_NTASKS", 1)))
    if "OMPI_MCA_orte_hnp_uri" in environ:
        return int(environ.get("OMPI_COMM_WORLD_SIZE", 1))
    return 1


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


@contextlib.contextmanager
def multi_process() -> Iterator[None]:
    """End this process at once if it fails, so that the processes waiting for it end too.

    An orderly exit would wait for the others. They notice after the heartbeat timeout at the
    latest.
    """
    try:
        yield
        disconnect()
    except (ConfigError, SystemExit) as error:
        if _connected and isinstance(error, DiskError):  # only the first process has a disk
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(error.exit_code)
        disconnect()  # all processes raise the others
        raise
    except BaseException as error:
        if not _connected:
            raise
        reason = str(error).strip().partition("\n")[0]
        # Usually another process is gone. JAX reports this, but not always as a `JaxRuntimeError`.
        if _STATUS.match(reason) or isinstance(error, jax.errors.JaxRuntimeError):
            message = _lost(reason)
        else:
            message = f"error: process {jax.process_index()} cannot go on: {reason}"
            if not isinstance(error, LostError):
                traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(2, f"{message}\n".encode())  # through the filter, which drops what follows
        os._exit(1)
