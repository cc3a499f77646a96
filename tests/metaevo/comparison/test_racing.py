"""A race of settings with known scores: who wins, and on which seeds."""

import itertools

import numpy as np
import pytest

from metaevo.comparison.racing import (
    FINAL_SEEDS,
    FINALISTS,
    Round,
    cost,
    race,
    rounds_of,
    seeds_within,
)

SD = 40.0
"""Of one agent's score on CartPole-v1 after 16,384 steps."""


def test_the_better_half_gets_twice_as_many_seeds():
    rounds = rounds_of(96, 4)
    assert rounds == [
        Round(96, 0, 4),
        Round(48, 4, 4),
        Round(24, 8, 8),
        Round(12, 16, 16),
        Round(6, 32, 32),
        Round(3, 64, 64),
    ]
    assert cost(rounds) == 96 * 4 + 48 * 4 + 24 * 8 + 12 * 16 + 6 * 32 + 3 * 64


@pytest.mark.parametrize("settings", [1, 2, 4, 5, 17, 1000])
@pytest.mark.parametrize("first", [1, 8, 200])
def test_seeds_of_rounds_are_disjoint_and_the_final_has_enough(settings: int, first: int):
    rounds = rounds_of(settings, first)
    for before, after in itertools.pairwise(rounds):
        assert after.start == before.start + before.seeds
    assert rounds[0].start == 0
    assert rounds[-1].settings <= FINALISTS
    assert rounds[-1].seeds >= FINAL_SEEDS


def test_the_final_may_be_smaller():
    assert rounds_of(6, 2, 8) == [Round(6, 0, 2), Round(3, 2, 8)]
    assert seeds_within(4, 96, 8) == 24 > seeds_within(4, 96)


def test_the_first_seeds_fit_a_budget():
    for agents in (700, 5000, 60_000):
        first = seeds_within(48, agents)
        assert cost(rounds_of(48, first)) <= agents < cost(rounds_of(48, first + 1))
    assert seeds_within(48, 0) == 1


def raced(true: np.ndarray, first: int, rng: np.random.Generator) -> int:
    """The winner of a race in which the first setting is the untuned one."""

    def evaluate(left, this, number):
        return true[left] + rng.normal(0, SD / np.sqrt(this.seeds), len(left))

    return race(len(true), 0, rounds_of(len(true), first), evaluate)


@pytest.mark.parametrize(
    ("others", "spread", "worst"), [(-14, 0, -1.0), (-10, 0, -2.5), (-5, 8, 0.0)]
)
def test_the_winner_is_not_worse_than_the_untuned_setting(others, spread, worst):
    """The best of 96 means over 8 seeds is: where the others are 14 worse, it is 13 worse.

    Both have about as many frames: the race's first round has 2 seeds.
    """
    rng = np.random.default_rng(0)
    gains, naive = [], []
    for _ in range(200):
        true = np.r_[0.0, rng.normal(others, spread, 95)]
        gains.append(true[raced(true, 2, rng)])
        naive.append(true[(true + rng.normal(0, SD / np.sqrt(8), 96)).argmax()])
    assert np.mean(gains) >= worst
    assert np.mean(gains) >= np.mean(naive)
    assert cost(rounds_of(96, 2)) <= 96 * 8


def test_fresh_seeds_decide_the_final():
    """The third is lucky before the final; the fourth would lead if all seeds counted there."""
    seen = {}

    def evaluate(left, this, number):
        seen[number] = list(left)
        if this.settings <= FINALISTS:
            return np.array([{0: 5.0, 2: 1.0, 3: 9.0}.get(each, 4.0) for each in left])
        return np.array([{2: 100.0, 3: 50.0}.get(each, -each) for each in left])

    assert race(8, 0, rounds_of(8, 1), evaluate) == 3
    assert seen == {0: list(range(8)), 1: [0, 1, 2, 3]}


def test_equal_settings_leave_the_untuned_one():
    assert race(20, 7, rounds_of(20, 2), lambda left, this, number: np.zeros(len(left))) == 7


def test_diverged_settings_cannot_win():
    """Nor a setting that diverged once, on seeds before the final; nor the untuned one."""

    def evaluate(left, this, number):
        scores = np.array([float(each) for each in left])
        scores[[each in (0, 5) for each in left]] = np.nan if number == 0 else 99.0
        return scores

    assert race(6, 0, rounds_of(6, 1), evaluate) == 4
    assert race(6, 2, rounds_of(6, 1), lambda left, *_: np.full(len(left), np.nan)) == 2
