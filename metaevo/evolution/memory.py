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
        try:
            needed: int | None = evolution.compile()
        except jax.errors.JaxRuntimeError as error:
            _check_out_of_memory(error)
            needed = None
        answers = hosts.gather([needed, devices.free_bytes()])
        if any(each is None for each, _ in answers):
            evolution = halved(evolution)
            continue
        needed, free = max(answers, key=lambda answer: answer[0] / answer[1])
        before = evolution.chunk_size
        if needed <= free or before == 1:
            if needed > free:
                _warn(f"one agent at a time needs {as_text(needed)} of {as_text(free)} memory")
            return evolution, needed
        # Memory grows with the chunk, and a tenth is kept free.
        limit = max(1, min(before - 1, before * free * 9 // (10 * needed)))
        rows = -(-evolution.evaluations // evolution.num_devices)
        chunk_size = devices.even_chunk_size(rows, limit)
        what = f"{before} agents at once need {as_text(needed)} a device"
        if keep:
            _warn(f"{what}, which has {as_text(free)} free; {chunk_size} would fit")
            return evolution, needed
        _warn(f"{what}, which has {as_text(free)} free: {chunk_size} at once")
        evolution = evolution.with_chunk_size(chunk_size)


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
            _check_out_of_memory(error)
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
