"""Fit the agents that a device trains at once into its memory.

Chunks become smaller if XLA's analysis of the compiled program predicts that they do not fit, or if
memory runs out after all. All processes use chunks of the same size.
"""

import warnings
from typing import Any, Protocol

import jax

from metaevo.config import ConfigError
from metaevo.evolution import devices, hosts


class Chunked(Protocol):
    """Work on the devices that is divided into chunks of agents, such as an `Evolution`."""

    chunk_size: int
    bytes_needed: int | None

    def compiled(self) -> Any:
        """Compile the program unless it is compiled."""

    def use_chunks_of(self, chunk_size: int) -> None:
        """Use chunks of another size."""

    def run(self, state: Any, count: int) -> tuple[Any, Any]:
        """Run the program."""


def fit(work: Chunked, *, keep: bool = False) -> None:
    """Compile the program of some work, with chunks that fit into the memory of every device.

    With `keep`, there is only a warning, as the user has chosen that chunk size.

    Raises:
        ConfigError: if a single agent at a time does not fit.
    """
    while True:
        try:
            work.compiled()
            own = work.bytes_needed
        except jax.errors.JaxRuntimeError as error:
            _check_out_of_memory(error)
            own = None
        answers = hosts.gather([own, devices.free_bytes()])
        if any(needed is None for needed, _ in answers):
            _halve(work)
            continue
        needed, free = max(answers, key=lambda answer: answer[0] / answer[1])
        if needed <= free:
            return
        before = work.chunk_size
        if before == 1:
            _warn(f"one agent at a time needs {as_text(needed)} of {as_text(free)} memory")
            return
        # Memory grows with the chunk, and a tenth is kept free.
        fitting = max(1, min(before - 1, before * free * 9 // (10 * needed)))
        what = f"{before} agents at once need {as_text(needed)} a device"
        if keep:
            _warn(f"{what}, which has {as_text(free)} free; {fitting} would fit")
            return
        _warn(f"{what}, which has {as_text(free)} free: {fitting} at once")
        work.use_chunks_of(fitting)


def run(work: Chunked, state: Any, count: int) -> tuple[Any, Any]:
    """Run a block of some work; if a device runs out of memory, retry with half the chunk size.

    Raises:
        ConfigError: if a single agent at a time does not fit.
        LostError: with several processes, because the others already wait for this process.
    """
    while True:
        try:
            return work.run(state, count)
        except jax.errors.JaxRuntimeError as error:
            _check_out_of_memory(error)
            if jax.process_count() > 1:
                raise hosts.LostError(
                    f"out of memory with {work.chunk_size} agents at once: continue with "
                    f"--resume --evolution.chunk_size {max(1, work.chunk_size // 2)}"
                ) from None
        _halve(work)


def _halve(work: Chunked) -> None:
    before = work.chunk_size
    if before == 1:
        raise ConfigError(
            "the device has too little memory for one agent at a time; make the learner smaller "
            "(train.num_envs, train.num_steps, train.hidden_sizes)"
        )
    _warn(f"out of memory with {before} agents at once on a device: going on with {before // 2}")
    work.use_chunks_of(before // 2)


def _check_out_of_memory(error: jax.errors.JaxRuntimeError) -> None:
    """Raise an error again unless XLA ran out of memory on a device."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise error


def as_text(count: int) -> str:
    """Return a number of bytes as text, such as `1.2 GiB`."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= 0.1 * size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1024:.1f} KiB"


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
