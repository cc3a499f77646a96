"""Run blocks of generations one after another: the loop of an evolution, without I/O.

    for block in run_generations(evolution, evolution.start()):
        ...                                              # log it, save it, draw it, or break

The generations are computed in `evolution.py`; the host only starts blocks. Several processes
iterate together: the first process chooses the length of each block, and any process can end the
loop.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import jax
import numpy as np

from metaevo.evolution import devices, hosts, memory
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
        evolution, needed = memory.fit(evolution, keep=keep_chunks)
    yield Block(evolution, state, {}, done, 0.0, needed)
    length, seconds = 1, config.block_seconds
    while True:
        length = int(min(length * config.block_seconds / seconds, BLOCK_CAPACITY))
        length = max(1, min(length, every - done % every))
        length = in_lockstep(min(length, config.generations - done), stop)
        if length == 0:
            return
        before, chunk_size = time.monotonic(), evolution.chunk_size
        evolution, state, metrics = memory.run_block(evolution, state, length)
        seconds = time.monotonic() - before
        done += length
        needed = evolution.compile() if evolution.chunk_size != chunk_size else None
        yield Block(evolution, state, metrics, done, seconds, needed)


def in_lockstep(length: int, stop: Stop | None) -> int:
    """Return the number of generations that all processes run next; 0 if any should stop.

    The first process's `length` is used.
    """
    answers: list[PyTree] = hosts.gather([length, stop.requested if stop else None])
    signals = [number for _, number in answers if number is not None]
    if signals and stop:
        stop.requested = stop.requested or signals[0]
    return 0 if signals else int(answers[0][0])
