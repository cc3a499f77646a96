"""A race of settings: many on a few seeds, the better half on twice as many, until a few are left.

Successive halving (Karnin, Koren & Somekh 2013; Jamieson & Talwalkar 2016) over seeds. Scores
accumulate over the rounds, so no agent is trained twice. The maximum of many noisy means is biased
upwards; therefore all seeds so far decide which settings enter the final, but only the final's
seeds, which played no part in that selection, decide the winner. The untuned setting always reaches
the final.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

FINALISTS = 4
"""Maximum number of settings in the final, including the untuned setting."""
FINAL_SEEDS = 64
"""Minimum number of fresh seeds per finalist, by default."""


class Round(NamedTuple):
    """One round of a race."""

    settings: int
    """number of remaining settings"""
    start: int
    """index of the round's first seed; all seeds are fresh"""
    seeds: int
    """number of seeds per setting"""


def rounds_of(settings: int, first_seeds: int, final_seeds: int = FINAL_SEEDS) -> list[Round]:
    """Return the rounds of a race, the final last.

    Args:
        settings: number of settings in the first round.
        first_seeds: seeds per setting in the first round.
        final_seeds: minimum number of seeds per setting in the final.
    """
    rounds, start, seeds = [], 0, first_seeds
    while settings > FINALISTS:
        rounds.append(Round(settings, start, seeds))
        start += seeds
        settings, seeds = -(-settings // 2), start
    return [*rounds, Round(settings, start, max(seeds, final_seeds))]


def cost(rounds: Sequence[Round]) -> int:
    """Return the number of agents that a race trains."""
    return sum(each.settings * each.seeds for each in rounds)


def seeds_within(settings: int, agents: int, final_seeds: int = FINAL_SEEDS) -> int:
    """Return the most first-round seeds (at least 1) with which a race trains `agents` at most."""
    low, high = 1, max(1, agents)
    while low < high:
        middle = (low + high + 1) // 2
        if cost(rounds_of(settings, middle, final_seeds)) <= agents:
            low = middle
        else:
            high = middle - 1
    return low


def race(
    settings: int,
    untuned: int,
    rounds: Sequence[Round],
    evaluate: Callable[[list[int], Round, int], np.ndarray],
) -> int:
    """Return the index of the winner.

    Args:
        settings: number of settings.
        untuned: index of the untuned setting, which is in every round and wins if all diverge.
        rounds: the return value of `rounds_of`.
        evaluate: maps the remaining settings, the round and its number to their mean scores on
            the round's seeds. The score is non-finite if an agent diverged; such a setting cannot
            win.
    """
    left = list(range(settings))
    totals, means = np.zeros(settings), np.zeros(settings)
    for number, this in enumerate(rounds):
        if number:
            others = [each for each in left if each != untuned]
            others.sort(key=lambda each: -totals[each])  # stable sort: ties keep their order
            left = sorted([untuned, *others[: this.settings - 1]])
        found = np.asarray(evaluate(left, this, number), dtype=np.float64)
        means[:] = -np.inf
        means[left] = np.where(np.isfinite(found), found, -np.inf)
        totals[left] += this.seeds * means[left]
    means[~np.isfinite(totals)] = -np.inf
    best = int(means.argmax())
    return best if means[best] > means[untuned] else untuned
