"""A race of settings: many on a few seeds, the better half on twice as many, until a few are left.

Successive halving (Karnin, Koren & Somekh 2013; Jamieson & Talwalkar 2016) over seeds: scores add
up over the rounds, nothing is trained twice. The best of many noisy means owes more to luck than to
merit; so who enters the final is decided by all seeds so far, and who wins it by the final's own
seeds alone, on which nobody has been chosen. The untuned setting is carried to the final.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

FINALISTS = 4
"""Settings in the final, at most; one of them is the untuned one."""
FINAL_SEEDS = 64
"""Fresh seeds of a finalist, at least."""


class Round(NamedTuple):
    """One round of a race."""

    settings: int
    """that are left"""
    start: int
    """the first of its seeds, all of which are fresh"""
    seeds: int
    """of each setting"""


def rounds_of(settings: int, first_seeds: int) -> list[Round]:
    """Return the rounds of a race, the final last.

    Args:
        settings: that begin.
        first_seeds: of each in the first round; the final has `FINAL_SEEDS` at least.
    """
    rounds, start, seeds = [], 0, first_seeds
    while settings > FINALISTS:
        rounds.append(Round(settings, start, seeds))
        start += seeds
        settings, seeds = -(-settings // 2), start
    return [*rounds, Round(settings, start, max(seeds, FINAL_SEEDS))]


def cost(rounds: Sequence[Round]) -> int:
    """Return how many agents a race trains."""
    return sum(each.settings * each.seeds for each in rounds)


def seeds_within(settings: int, agents: int) -> int:
    """Return the most seeds of the first round (at least 1) with which a race has so few agents."""
    low, high = 1, max(1, agents)
    while low < high:
        middle = (low + high + 1) // 2
        if cost(rounds_of(settings, middle)) <= agents:
            low = middle
        else:
            high = middle - 1
    return low


def race(
    settings: int,
    untuned: int,
    first_seeds: int,
    evaluate: Callable[[list[int], Round, int], np.ndarray],
) -> int:
    """Return the index of the winner.

    Args:
        settings: how many there are.
        untuned: the index of the one that is in every round, and that wins if all diverge.
        first_seeds: of every setting in the first round.
        evaluate: from the settings that are left, the round and its number to their mean scores
            on the round's seeds; not finite for a setting under which an agent diverged, which
            cannot win.
    """
    left = list(range(settings))
    totals, means = np.zeros(settings), np.zeros(settings)
    for number, this in enumerate(rounds_of(settings, first_seeds)):
        if number:
            others = [each for each in left if each != untuned]
            others.sort(key=lambda each: -totals[each])  # stable: the first one of equals
            left = sorted([untuned, *others[: this.settings - 1]])
        found = np.asarray(evaluate(left, this, number), dtype=np.float64)
        means[:] = -np.inf
        means[left] = np.where(np.isfinite(found), found, -np.inf)
        totals[left] += this.seeds * means[left]
    means[~np.isfinite(totals)] = -np.inf
    best = int(means.argmax())
    return best if means[best] > means[untuned] else untuned
