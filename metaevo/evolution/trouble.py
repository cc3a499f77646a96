"""Diagnose evolutions that have not learned."""

from collections.abc import Sequence

from metaevo.config import ConfigError
from metaevo.config.plain import PlainMapping
from metaevo.evolution.loop import Block


def check_first_generation(block: Block, population_size: int, name: str) -> None:
    """Raise an error if every candidate of the first generation failed.

    Later generations may fail, for instance on an unlucky draw of a task.

    Args:
        block: any block of the evolution; only the one with the first generation is checked.
        population_size: candidates of a generation.
        name: name of the study, for the error message.

    Raises:
        ConfigError: in all processes, as they have the same metrics.
    """
    first = next((each for each in block.records if each["generation"] == 0), None)
    if first is not None and first["diverged"] == population_size:
        raise ConfigError(
            f"{name}: all candidates of the first generation scored NaN or infinity; look for "
            "operations such as the logarithm of a negative number, and start a run in another "
            "directory"
        )


def trouble(records: Sequence[PlainMapping], population_size: int) -> str | None:
    """Return why an evolution has not learned, by its records; None if no problem is found."""
    count = len(records)
    if not count:
        return None
    failed = sum(int(each["diverged"]) == population_size for each in records)
    if failed:
        return (
            f"every candidate failed (its fitness was not finite) in {failed} of {count} "
            "generations, from which nothing can be learned"
        )
    tied = sum(bool(each["tied"]) for each in records)
    if 2 * tied >= count:
        return (
            f"all candidates had the same fitness in {tied} of {count} generations, from which "
            "nothing can be learned: it may need a larger sigma, longer training or another fitness"
        )
    return None
