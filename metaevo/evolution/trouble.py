"""Diagnose evolutions that have not learned."""

from collections.abc import Sequence

from metaevo.config.plain import PlainMapping


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
