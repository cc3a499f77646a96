"""Several processes that run one command: how to connect them, and what ends them together."""

import argparse
import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from metaevo.config import ConfigError, DiskError, PlainDict

FLAGS: dict[str, tuple[Any, str, str, str]] = {
    "coordinator": (str, "HOST:PORT", "JAX_COORDINATOR_ADDRESS", "where the first process listens"),
    "processes": (
        int, "N", "JAX_NUM_PROCESSES", "how many there are; 1 keeps the tasks of a cluster apart"
    ),
    "process": (int, "I", "JAX_PROCESS_ID", "which one this is, from 0"),
}  # fmt: skip
"""Type, value, environment variable and meaning of the flags that describe the processes."""


def add_process_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of several processes to a script's parser."""
    group = parser.add_argument_group("several processes (docs/how-to/scaling.md)")
    for name, (kind, value, variable, text) in FLAGS.items():
        given = os.environ.get(variable) or None
        group.add_argument(f"--{name}", type=kind, default=given, metavar=value, help=text)
    text = "let JAX find all that out; SLURM and Open MPI need no flag"
    group.add_argument("--distributed", action="store_true", help=text)


def wanted(argv: Sequence[str]) -> PlainDict | None:
    """Return the arguments of `jax.distributed.initialize`, or None for a single process."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_process_flags(parser)
    try:
        args, rest = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from None
    if {"-h", "--help"} & set(rest) or args.processes == 1:
        return None
    missing = [f"--{name}" for name in FLAGS if getattr(args, name) is None]
    if len(missing) == len(FLAGS):
        return {} if args.distributed or _tasks() > 1 else None
    if missing:
        raise ConfigError(f"several processes also need {', '.join(missing)}")
    host, _, port = args.coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--coordinator {args.coordinator}: must be HOST:PORT")
    if not 0 <= args.process < args.processes:
        raise ConfigError(f"--process {args.process}: must be from 0 to {args.processes - 1}")
    names = "coordinator_address", "num_processes", "process_id"
    values = args.coordinator, args.processes, args.process
    return {**dict(zip(names, values, strict=True)), "cluster_detection_method": "deactivate"}


def _tasks() -> int:
    """Return how many tasks SLURM or Open MPI started together with this process.

    A batch script or an interactive shell sees the tasks of its job, but runs in a single process.
    """
    environ = os.environ
    if "SLURM_STEP_NODELIST" in environ and "SLURM_PROCID" in environ:
        return int(environ.get("SLURM_STEP_NUM_TASKS", environ.get("SLURM_NTASKS", 1)))
    return int(environ.get("OMPI_COMM_WORLD_SIZE", 1) if "OMPI_MCA_orte_hnp_uri" in environ else 1)


@contextlib.contextmanager
def multi_process() -> Iterator[None]:
    """End one of several processes at once if it fails, so that those waiting for it end too.

    An orderly exit would wait for the others, which notice after JAX's heartbeat (100 s).
    """
    import jax

    from metaevo.evolution import devices

    try:
        yield
        devices.disconnect()
    except (ConfigError, SystemExit) as error:
        # Only the first process writes to a disk.
        if isinstance(error, DiskError) and jax.distributed.is_initialized():
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(error.exit_code)
        devices.disconnect()  # all processes raise the others
        raise
    except BaseException as error:
        if not jax.distributed.is_initialized():
            raise
        from metaevo.evolution.memory import LostError

        reason = str(error).strip().partition("\n")[0]
        # Usually another process is gone. JAX reports this, but not always as a `JaxRuntimeError`.
        lost = isinstance(error, LostError | jax.errors.JaxRuntimeError)
        if not lost and not re.match("[A-Z_]+: ", reason):
            traceback.print_exc()
        hint = "" if isinstance(error, LostError) else "; start all again with --resume"
        text = f"error: process {jax.process_index()} cannot go on: {reason}{hint}"
        print(text, file=sys.stderr, flush=True)
        os._exit(1)
