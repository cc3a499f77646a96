"""What happens if a device has too little memory for the agents that it trains at once."""

import warnings
from collections.abc import Sequence

import jax

from metaevo.config import ConfigError
from metaevo.evolution.devices import as_text


class LostError(Exception):
    """This process cannot go on while the others wait for it; the message is a single line."""


def check_out_of_memory(error: jax.errors.JaxRuntimeError) -> None:
    """Raise an error again unless memory ran out on a device."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise error


def halved(chunk_size: int) -> int:
    """Return half as many agents at once, and warn.

    Raises:
        ConfigError: if there is only one.
    """
    if chunk_size == 1:
        raise ConfigError(
            "the device has too little memory for one agent at a time; make the learner smaller "
            "(train.num_envs, train.num_steps, train.hidden_sizes)"
        )
    half = chunk_size // 2
    text = f"with {chunk_size} agents at once a device ran out of memory: going on with {half}"
    warnings.warn(text, stacklevel=3)
    return half


def fitting(
    chunk_size: int, answers: Sequence[tuple[int | None, int]], *, keep: bool = False
) -> int:
    """Return how many agents fit at once into the memory of a device, the same in all processes.

    Args:
        chunk_size: agents at once in the compiled program.
        answers: of each process, the bytes of that program and the free ones; None if memory ran
            out while it was compiled.
        keep: only warn, because the user has chosen the size.

    Raises:
        ConfigError: if the program for a single agent runs out of memory.
    """
    known = [(need, free) for need, free in answers if need is not None]
    if len(known) < len(answers):
        return halved(chunk_size)
    need, free = max(known, key=lambda answer: answer[0] / max(answer[1], 1))
    if need <= free:
        return chunk_size
    about = f"a device needs {as_text(need)} of {as_text(free)} free memory"
    if keep or chunk_size == 1:
        warnings.warn(f"evolution.chunk_size = {chunk_size}: {about}", stacklevel=3)
        return chunk_size
    # Memory grows with the chunk, and a tenth is kept free.
    fits = max(1, min(chunk_size - 1, chunk_size * free * 9 // (10 * need)))
    text = f"with {chunk_size} agents at once {about}: going on with {fits}"
    warnings.warn(text, stacklevel=3)
    return fits
