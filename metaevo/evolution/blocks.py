"""The host's loop over blocks of generations, for the first process and for those that follow it.

Ask, evaluate and tell are in `evolution.py`. The host only starts blocks; between two of them it
looks at the clock and at signals. The first process decides how long the next block is, and
whether there is one.
"""

import time
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from metaevo.evolution import devices, hosts, memory
from metaevo.evolution.evolution import BLOCK_CAPACITY, Evolution, State


class Stop(Protocol):
    """Whether somebody asked to stop."""

    requested: int | None
    """the number of the signal"""


class Block(NamedTuple):
    """Generations that were just done."""

    evolution: Evolution
    state: State
    """after them, replicated over the devices"""
    metrics: dict[str, np.ndarray]
    """each [generations]"""
    done: int
    """generations in all"""
    seconds: float
    """that the block took"""


class Watch:
    """What happens on the host between two blocks; this one does nothing, for those that follow."""

    def begin(self, evolution: Evolution, bytes_needed: int) -> None:
        """Look at an evolution that is compiled and about to run; again when its chunks change."""

    def block(self, block: Block) -> None:
        """Look at generations that were just done: log them, save them."""


def run_generations(
    evolution: Evolution,
    start: State,
    *,
    every: int,
    keep_chunks: bool,
    stop: Stop,
    watch: Watch,
) -> tuple[Evolution, State, int]:
    """Run the generations that are missing, or until a signal. All processes call it.

    Args:
        evolution: its config has the number of generations.
        start: one copy of the state to start from; that of the first process counts.
        every: blocks end at multiples of this number of generations.
        keep_chunks: whether chunks that do not fit are only warned of.
        stop: asked between two blocks.
        watch: called with every block.

    Returns:
        the evolution (its chunks may have become smaller), its state, the generations done.
    """
    config = evolution.config
    start = hosts.share(jax.device_get(start))
    state, done = devices.replicate(start, evolution.num_devices), int(start.generation)
    if in_lockstep(stop, config.generations - done):  # nobody waits for a compilation to stop
        evolution, needed = memory.fit(evolution, keep=keep_chunks)
        watch.begin(evolution, needed)
    length, seconds = 1, config.block_seconds
    while True:
        length = int(min(length * config.block_seconds / seconds, BLOCK_CAPACITY))
        length = max(1, min(length, every - done % every))
        length = in_lockstep(stop, min(length, config.generations - done))
        if length == 0:
            return evolution, state, done
        before, chunk_size = time.monotonic(), evolution.chunk_size
        evolution, state, metrics = memory.run_block(evolution, state, length)
        seconds = time.monotonic() - before
        done += length
        if evolution.chunk_size != chunk_size:
            watch.begin(evolution, evolution.compile())
        watch.block(Block(evolution, state, metrics, done, seconds))


def in_lockstep(stop: Stop, length: int) -> int:
    """Return how many generations all processes do next; 0, to end, if any is to stop.

    Args:
        stop: also set if another process got the signal.
        length: what the first process proposes.
    """
    answers: list[Any] = hosts.gather([length, stop.requested])
    signals = [number for _, number in answers if number is not None]
    if signals:
        stop.requested = stop.requested or signals[0]
        return 0
    return int(answers[0][0])
