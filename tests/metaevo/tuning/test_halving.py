"""Successive halving and Hyperband: published sizes, counted compute, survivors untouched."""

import jax
import numpy as np
import pytest

from metaevo.config import from_dict
from metaevo.training.fitness import FitnessConfig
from metaevo.training.halving import Bracket, brackets, run_bracket, updates_at
from metaevo.training.population import Population
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.objective import statistic
from purerl import q_learning
from tests.metaevo.training.test_population import assert_same, diverging, q_task

RATES = [0.5, 0.05, 0.2, 0.0, 0.3, 0.0, 0.7, 0.1, 0.0]
SEEDS = 2


def config(**settings):
    return from_dict(SweepConfig, settings)


def test_hyperband_is_the_published_table():
    """Li et al. 2018, table 1: eta = 3, R = 81: n_i and r_i of the brackets s = 4, ..., 0."""
    cycle = brackets(config(scheduler="hyperband", eta=3, min_fraction=1 / 81))
    published = [
        ([81, 27, 9, 3, 1], [1, 3, 9, 27, 81]),
        ([34, 11, 3, 1], [3, 9, 27, 81]),
        ([15, 5, 1], [9, 27, 81]),
        ([8, 2], [27, 81]),
        ([5], [81]),
    ]
    assert [bracket.sizes() for bracket in cycle] == [sizes for sizes, _ in published]
    for bracket, (_, resources) in zip(cycle, published, strict=True):
        np.testing.assert_allclose(np.array(bracket.fractions) * 81, resources)


def test_successive_halving_has_one_bracket():
    (bracket,) = brackets(config(scheduler="successive_halving", eta=2, min_fraction=0.125))
    assert bracket == Bracket(8, 2, (0.125, 0.25, 0.5, 1.0))
    assert bracket.sizes(5) == [5, 2, 1, 1]
    # 8 trials an eighth, 4 another eighth, 2 another quarter, 1 another half: 2.5 trainings of 8.
    assert bracket.cost() == pytest.approx(8 / 8 + 4 / 8 + 2 / 4 + 1 / 2)
    (other,) = brackets(config(scheduler="successive_halving", eta=2, min_fraction=0.2, batch=20))
    assert (other.trials, other.fractions) == (20, (0.25, 0.5, 1.0))


@pytest.mark.parametrize(("fraction", "expected"), [(1 / 27, 1), (0.26, 3), (1.0, 10), (0.3, 3)])
def test_rungs_are_whole_updates(fraction, expected):
    assert updates_at(fraction, 10) == expected


@pytest.fixture(scope="module")
def populations():
    fitness = FitnessConfig(mean_return=0.0, reward_per_step=1.0)
    hyperparams = q_learning.Hyperparams()
    return [Population(q_task(updates), hyperparams, None, fitness) for updates in (90, 45)]


@pytest.fixture(scope="module")
def diverging_population():
    fitness = FitnessConfig(mean_return=0.0, reward_per_step=1.0)
    return Population(q_task(45, diverging), q_learning.Hyperparams(), None, fitness)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(5), SEEDS)


def start(population, keys, rates=RATES):
    return population.init(keys, [q_learning.Hyperparams(learning_rate=rate) for rate in rates])


def test_compute_is_counted_and_survivors_are_untouched(populations, keys):
    population, settings = (
        populations[0],
        config(scheduler="successive_halving", min_fraction=1 / 9),
    )
    (bracket,) = brackets(settings)
    frames, reports = [], []
    results = run_bracket(
        [(population, start(population, keys), range(9))],
        bracket,
        lambda scores: statistic(scores, settings),
        lambda *arguments: reports.append(arguments),
        frames.append,
    )
    # 9 trials x 10 updates, 3 x 20 more, 1 x 60 more, of 10 steps and two seeds each
    assert sum(frames) == (9 * 10 + 3 * 20 + 1 * 60) * 10 * SEEDS
    assert sum(frames) == pytest.approx(bracket.cost() * 90 * 10 * SEEDS)
    assert sum(frames) == sum(result.frames for result in results.values())
    assert sum(frames) < 9 * 90 * 10 * SEEDS / 3
    assert sorted(result.fraction for result in results.values()) == pytest.approx(
        [1 / 9] * 6 + [1 / 3] * 2 + [1.0]
    )

    # By brute force: rank everybody at the rungs themselves.
    agents = population.advance(start(population, keys), 10)
    first = population.scores(agents).mean(axis=1)
    agents = population.advance(agents, 20)
    second = population.scores(agents).mean(axis=1)
    third = population.scores(population.advance(agents, 60))
    survivors = np.argsort(-first, kind="stable")[:3]
    winner = survivors[np.argmax(second[survivors])]
    assert {n for n, result in results.items() if result.complete} == {winner}
    np.testing.assert_array_equal(results[winner].scores, third[winner])
    assert [r[:2] for r in reports if r[0] == winner] == [
        (winner, 100), (winner, 300), (winner, 900),
    ]  # fmt: skip
    assert {n for n, step, _ in reports if step == 300} == set(survivors)


def test_groups_of_different_length_are_ranked_together(populations, keys):
    settings = config(scheduler="successive_halving", eta=2, min_fraction=0.5, batch=6)
    (bracket,) = brackets(settings)
    groups = [
        (populations[0], start(populations[0], keys, [0.0, 0.5, 0.0]), [4, 0, 7]),
        (populations[1], start(populations[1], keys, [0.0, 0.0, 0.5]), [1, 2, 3]),
    ]
    results = run_bracket(
        groups, bracket, lambda scores: statistic(scores, settings), lambda *_: None
    )
    complete = {number for number, result in results.items() if result.complete}
    halves = {number: result for number, result in results.items() if not result.complete}
    assert len(complete) == 3
    assert {0, 3} <= complete  # the ones that learn, one of each length
    for number, result in halves.items():
        updates = 45 if number in (4, 0, 7) else 22
        assert result.frames == updates * 10 * SEEDS
        assert result.value <= max(results[n].value for n in complete)


@pytest.mark.parametrize("diverged", [{1}, {0, 1, 2, 3}])
def test_whoever_diverges_is_out_and_all_may(diverging_population, keys, diverged):
    settings = config(scheduler="successive_halving", eta=2, min_fraction=0.25)
    rates = [2.0 if number in diverged else 0.3 for number in range(4)]
    results = run_bracket(
        [(diverging_population, start(diverging_population, keys, rates), range(4))],
        *brackets(settings),
        lambda scores: statistic(scores, settings),
        lambda *_: None,
    )
    for number in range(4):
        assert (results[number].value is None) == (number in diverged)
        assert results[number].diverged == SEEDS * (number in diverged)
    assert any(result.complete for result in results.values()) == (len(diverged) < 4)


def test_whoever_has_no_score_yet_may_go_on(populations, keys):
    """As where no episode ends in the first rung: that is no reason to stop all trials."""
    settings = config(scheduler="successive_halving", eta=2, min_fraction=0.25)
    reports = []
    results = run_bracket(
        [(populations[1], start(populations[1], keys, RATES[:4]), range(4))],
        *brackets(settings),
        lambda scores: None,
        lambda *arguments: reports.append(arguments),
    )
    assert [result.complete for result in results.values()] == [True, False, False, False]
    assert reports == []
    assert all(result.diverged == 0 for result in results.values())


def test_objective():
    scores = np.array([4.0, 1.0, 2.0, 9.0])
    assert statistic(scores, config(statistic="mean")) == 4.0
    assert statistic(scores, config(statistic="iqm")) == 3.0
    assert statistic(scores, config(statistic="quantile", quantile=0.0)) == 1.0
    assert statistic(scores, config(statistic="quantile", quantile=0.5)) == 3.0
    assert statistic(np.array([1.0, np.nan]), config()) is None


def test_helpers_agree(populations, keys):
    """`start` begins every trial alike: what differs later is the settings' doing."""
    agents = start(populations[0], keys, [0.1, 0.9])
    first, second = (populations[0].select(agents, [trial]).rows.agent for trial in (0, 1))
    assert_same(first, second)
