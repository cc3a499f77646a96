"""Fit the blocks of an evolution into device memory by reducing the chunk size."""

import warnings

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.evolution import devices, hosts
from metaevo.evolution.evolution import Evolution, State


def fit(evolution: Evolution, *, keep: bool = False) -> tuple[Evolution, int]:
    """Compile a block, with smaller chunks if XLA's analysis predicts that it does not fit.

    All processes must call this, and use the same chunk size afterwards.

    Args:
        evolution: its chunk size is tried first.
        keep: only warn; the user has chosen that chunk size.

    Returns:
        the evolution, and the bytes that it needs on a device.

    Raises:
        ConfigError: if not even one agent at a time can be compiled.
    """
    while True:
        needed = _compile(evolution)
        answers = hosts.gather([needed, devices.free_bytes()])
        if any(each is None for each, _ in answers):  # XLA itself has run out of memory
            evolution = halved(evolution)
            continue
        needed, free = max(answers, key=lambda answer: answer[0] / answer[1])
        if needed <= free or evolution.chunk_size == 1:
            if needed > free:
                _warn(f"one agent at a time needs {as_text(needed)} of {as_text(free)} memory")
            return evolution, needed
        rows = -(-evolution.evaluations // evolution.num_devices)
        chunk_size = fitting_chunk_size(evolution.chunk_size, needed, free)
        chunk_size = devices.even_chunk_size(rows, chunk_size)
        what = f"{evolution.chunk_size} agents at once need {as_text(needed)} a device"
        if keep:
            _warn(f"{what}, which has {as_text(free)} free; {chunk_size} would fit")
            return evolution, needed
        _warn(f"{what}, which has {as_text(free)} free: {chunk_size} at once")
        evolution = evolution.with_chunk_size(chunk_size)


def _compile(evolution: Evolution) -> int | None:
    try:
        return evolution.compile()
    except jax.errors.JaxRuntimeError as error:
        if devices.is_out_of_memory(error):
            return None
        raise


def run_block(
    evolution: Evolution, state: State, generations: int
) -> tuple[Evolution, State, dict[str, np.ndarray]]:
    """Run a block; if a device runs out of memory, retry with half the chunk size.

    Returns:
        the evolution that succeeded, the new state and the metrics, each [generations].

    Raises:
        ConfigError: if a single agent at a time does not fit.
        LostError: with several processes, because the others already wait for this process.
    """
    while True:
        try:
            return evolution, *evolution.run_block(state, generations)
        except jax.errors.JaxRuntimeError as error:
            if not devices.is_out_of_memory(error):
                raise
            if jax.process_count() > 1:
                raise hosts.LostError(
                    f"out of memory with {evolution.chunk_size} agents at once: continue with "
                    f"--resume --evolution.chunk_size {max(1, evolution.chunk_size // 2)}"
                ) from None
        evolution = halved(evolution)


def halved(evolution: Evolution) -> Evolution:
    """Return the evolution with half the chunk size, and warn.

    Raises:
        ConfigError: if the chunk size is already 1.
    """
    before = evolution.chunk_size
    if before == 1:
        raise ConfigError(
            "the device has too little memory for one agent at a time; make the learner smaller "
            "(train.num_envs, train.num_steps, train.hidden_sizes)"
        )
    _warn(f"out of memory with {before} agents at once on a device: going on with {before // 2}")
    return evolution.with_chunk_size(before // 2)


def fitting_chunk_size(chunk_size: int, needed: int, free: int) -> int:
    """Return a smaller chunk that should fit, if memory grows with the chunk.

    Args:
        chunk_size: a chunk size that does not fit.
        needed: bytes needed with this chunk size.
        free: available bytes, of which a tenth is kept free.
    """
    return max(1, min(chunk_size - 1, chunk_size * free * 9 // (10 * needed)))


def as_text(count: int) -> str:
    """Return a number of bytes as text, such as `1.2 GiB`."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= 0.1 * size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1024:.1f} KiB"


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
