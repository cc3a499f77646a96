"""Run blocks of generations one after another: the loop of an evolution, without I/O.

    for block in run_generations(evolution, evolution.start()):
        ...                                              # log it, save it, draw it, or break

The generations are computed in `evolution.py`; the host only starts blocks. Several processes
iterate together: the first process chooses the length of each block, and any process can end the
loop. If a device has too little memory, the chunk size decreases.
"""

import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices, hosts
from metaevo.evolution.evolution import BLOCK_CAPACITY, Evolution, State
from purerl.types import PyTree


class Block(NamedTuple):
    """Generations that were just done; the first block of a loop has none."""

    evolution: Evolution
    """the evolution; its chunk size decreases if a device has too little memory"""
    state: State
    """state after the block, replicated over the devices"""
    metrics: dict[str, np.ndarray]
    """each [generations]"""
    done: int
    """generations in all"""
    seconds: float
    """duration of the block"""
    bytes_needed: int | None = None
    """memory of the program on a device, if it was compiled for this block"""


class Stop(Protocol):
    """A request to end the loop; `metaevo.runs.signals.StopOnSignal` is one."""

    requested: int | None
    """number of a signal that any process got, or None"""


def run_generations(
    evolution: Evolution,
    start: State,
    *,
    every: int = BLOCK_CAPACITY,
    keep_chunks: bool = False,
    stop: Stop | None = None,
) -> Iterator[Block]:
    """Yield the remaining generations in blocks; all processes iterate in lockstep.

    Args:
        evolution: its config has the number of generations.
        start: one copy of the initial state; the first process's state is used.
        every: blocks end at multiples of this number of generations.
        keep_chunks: only warn if chunks do not fit into memory.
        stop: read between two blocks, and set in all processes.
    """
    config = evolution.config
    start = hosts.share(jax.device_get(start))
    state, done = devices.replicate(start, evolution.num_devices), int(start.generation)
    needed = None
    if in_lockstep(config.generations - done, stop):  # a stop need not wait for a compilation
        evolution, needed = fit(evolution, keep=keep_chunks)
    yield Block(evolution, state, {}, done, 0.0, needed)
    length, seconds = 1, config.block_seconds
    while True:
        length = int(min(length * config.block_seconds / seconds, BLOCK_CAPACITY))
        length = max(1, min(length, every - done % every))
        length = in_lockstep(min(length, config.generations - done), stop)
        if length == 0:
            return
        before, chunk_size = time.monotonic(), evolution.chunk_size
        evolution, state, metrics = run_block(evolution, state, length)
        seconds = time.monotonic() - before
        done += length
        needed = evolution.compile() if evolution.chunk_size != chunk_size else None
        yield Block(evolution, state, metrics, done, seconds, needed)


def records_of(block: Block, frames: int) -> list[PlainDict]:
    """Return a record for each generation of a block.

    Args:
        block: the block.
        frames: environment steps before it; a record has the number after its generation.
    """
    metrics = dict(block.metrics)
    if not metrics:
        return []
    first = block.done - len(metrics["fitness_mean"])
    if "frames" in metrics:  # they depend on the drawn tasks
        ends = (frames + np.cumsum(metrics.pop("frames"), dtype=np.int64)).tolist()
    else:
        steps = block.evolution.frames
        ends = [frames + steps(each) - steps(first) for each in range(first + 1, block.done + 1)]
    return [
        {"generation": first + index, "frames": end}
        | {name: values[index] for name, values in metrics.items()}
        for index, end in enumerate(ends)
    ]


def in_lockstep(length: int, stop: Stop | None) -> int:
    """Return the number of generations that all processes run next; 0 if any should stop.

    The first process's `length` is used.
    """
    answers: list[PyTree] = hosts.gather([length, stop.requested if stop else None])
    signals = [number for _, number in answers if number is not None]
    if signals and stop:
        stop.requested = stop.requested or signals[0]
    return 0 if signals else int(answers[0][0])


def fit(evolution: Evolution, *, keep: bool = False) -> tuple[Evolution, int]:
    """Compile a block, with smaller chunks if XLA's analysis predicts that it does not fit.

    All processes must call this, and use the same chunk size afterwards. With `keep`, there is only
    a warning, as the user has chosen that chunk size. The result is the evolution, and the bytes
    that it needs on a device.
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
    """Return the evolution with half the chunk size, and warn."""
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
