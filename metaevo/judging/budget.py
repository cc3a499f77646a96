"""The number of settings and seeds that a judgement gives every contender."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Budget:
    """The same for every contender, on every task.

    Every setting trains on the screening seeds. The best ones and the untuned setting are the
    finalists. They train on fresh selection seeds, which alone choose the winner, and on the
    held-out seeds, on which it is compared.

    Examples:
        >>> metaevo.Budget(settings=64, seeds=256).agents
        2816

    Raises:
        ValueError: a number is too small; the message names it.
    """

    settings: int = 256
    """points of the search space, in addition to the untuned setting; 0 for no tuning"""
    screening_seeds: int = 2
    """seeds of every setting"""
    finalists: int = 8
    """settings in the final, with the untuned one"""
    selection_seeds: int = 64
    """seeds of every finalist that choose the winner"""
    seeds: int = 128
    """held-out seeds of every finalist"""

    def __post_init__(self) -> None:
        lowest = {"settings": 0, "finalists": 2}
        for field in fields(self):
            value, low = getattr(self, field.name), lowest.get(field.name, 1)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"{field.name} = {value!r}: must be an integer of at least {low}")

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Settings, screening seeds, finalists, selection seeds and held-out seeds.

        Without tuning the untuned setting is the only one, and trains on the held-out seeds only.
        """
        if not self.settings:
            return 1, 0, 1, 0, self.seeds
        count = self.settings + 1
        finalists = min(self.finalists, count)
        return count, self.screening_seeds, finalists, self.selection_seeds, self.seeds

    @property
    def agents(self) -> int:
        """Number of agents that are trained for each contender on each task."""
        settings, screening, finalists, selection, held_out = self.shape
        return settings * screening + finalists * (selection + held_out)


QUICK = Budget(256, screening_seeds=1, finalists=6, selection_seeds=16, seeds=48)
"""Enough for a verdict on a large difference."""
STANDARD = Budget()
FULL = Budget(512, screening_seeds=4, selection_seeds=256, seeds=512)
"""For a result on record."""
