"""Statistics of groups against SciPy, brute force, hand-computed cases and simulations."""

from itertools import combinations
from math import comb, inf

import numpy as np
import pytest
from scipy import stats

from metaevo.statistics import strata
from metaevo.statistics import table as statistics


def normal(seed: int, *sizes: int, shift: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(shift, 1, size) for size in sizes]


def test_a_table_has_the_statistics_of_the_protocol():
    """On rectangular data both agree, up to the samples that are drawn."""
    x, y = normal(0, 12, 12), normal(1, 9, 9, shift=0.7)
    table_x, table_y = np.stack(x, axis=1), np.stack(y, axis=1)
    result = strata.contrast(x, y)
    other = statistics.compare(table_x, table_y)
    assert result.difference.value == pytest.approx(other.difference)
    assert result.difference.interval == pytest.approx(other.difference_interval, abs=0.08)
    assert result.probability.value == pytest.approx(other.probability_of_improvement)
    assert result.probability.interval == pytest.approx(other.probability_interval, abs=0.03)
    interval = statistics.stratified_bootstrap_interval(table_x)
    assert strata.estimate(x).interval == pytest.approx(interval, abs=0.08)


def test_the_interval_is_that_of_scipy():
    (x,) = normal(2, 15)
    bootstrap = stats.bootstrap(
        (x,), lambda s, axis: stats.trim_mean(s, 0.25, axis=axis), method="percentile",
        n_resamples=20_000, rng=np.random.default_rng(0), vectorized=True,
    ).confidence_interval  # fmt: skip
    found = strata.estimate([x], resamples=20_000)
    assert found.value == pytest.approx(stats.trim_mean(x, 0.25))
    assert found.interval == pytest.approx(tuple(bootstrap), abs=0.02)


def test_runs_are_redrawn_within_their_task():
    """Two constant tasks: however runs are drawn, the mean stays."""
    found = strata.estimate([np.zeros(3), np.ones(9)], lambda s: np.concatenate(s, -1).mean(-1))
    assert found.value == pytest.approx(0.75)
    assert found.interval == pytest.approx((0.75, 0.75))


def test_the_rank_test_is_exact_for_few_runs():
    x, y = [5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]
    assert strata.rank_test([x], [y]) == pytest.approx(2 / comb(8, 4))
    assert strata.smallest_p([x], [y]) == pytest.approx(2 / comb(8, 4))
    assert strata.smallest_p([x[:3]], [y[:3]]) == pytest.approx(0.1)
    x, y = normal(3, 7)[0], normal(4, 6)[0]
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert strata.rank_test([x], [y]) == pytest.approx(expected)
    assert strata.rank_test([np.ones(20)], [np.ones(20)]) == 1


def test_the_rank_test_of_ties_and_of_several_tasks_is_that_of_all_permutations():
    x, y = [np.array([3.0, 3.0, 4.0, 9.0])], [np.array([1.0, 3.0, 2.0])]
    u = [
        np.sign(np.subtract.outer(part, np.delete(pooled, chosen))).sum()
        for pooled in [np.r_[x[0], y[0]]]
        for chosen in map(list, combinations(range(7), 4))
        for part in [pooled[chosen]]
    ]
    observed = np.sign(np.subtract.outer(x[0], y[0])).sum()
    exact = np.mean(np.abs(u) >= abs(observed))
    assert strata.rank_test(x, y) == pytest.approx(exact, abs=0.01)
    # Two tasks of 3 against 3, separated on both: 2 of 20 x 20 permutations are as extreme.
    high, low = [np.array([4.0, 5.0, 6.0])] * 2, [np.array([1.0, 2.0, 3.0])] * 2
    assert strata.rank_test(high, low) == pytest.approx(2 / 400, abs=0.002)
    assert strata.smallest_p(high, low) == pytest.approx(2 / 400)


def test_holm_by_hand():
    # Sorted 0.01 x 3, 0.02 x 2, 0.04 x 1, none below the one before it.
    assert strata.holm([0.02, 0.04, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert strata.holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("runs", [2, 3])
def test_too_few_runs_claim_nothing_however_far_apart(runs: int):
    x, y = np.arange(runs) + 1000.0, np.arange(runs) * 1.0
    result = strata.contrast([x], [y])
    assert result.difference.interval[0] > 0  # the bootstrap alone would be sure
    assert strata.verdict(result, result.p) == "undecided"


def test_four_separated_runs_are_enough_and_the_verdict_has_a_direction():
    x, y = np.arange(4) + 10.0, np.arange(4) * 1.0
    for first, second, expected in ((x, y, "better"), (y, x, "worse")):
        result = strata.contrast([first], [second])
        assert strata.verdict(result, result.p) == expected
    assert strata.verdict(strata.contrast([x], [y]), 0.06) == "undecided"  # after Holm


def test_equal_groups_are_rarely_told_apart():
    """Under no difference at most 5% of verdicts are claims, also with 4 runs a group."""
    claims = 0
    for trial in range(200):
        x, y = normal(1000 + trial, 4)[0], normal(5000 + trial, 4)[0]
        result = strata.contrast([x], [y], resamples=200)
        claims += strata.verdict(result, result.p) != "undecided"
    assert claims <= stats.binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize("effect", [0.5, 1.0, 2.0])
def test_the_needed_runs_have_the_promised_power(effect: float):
    """With the number that is named, a Mann-Whitney test finds the difference 4 times of 5."""
    base = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    base /= base.std(ddof=1)
    needed = int(strata.needed_runs([base + effect], [base]))
    rng = np.random.default_rng(0)
    x = rng.normal(effect, 1, (1000, needed))
    y = rng.normal(0, 1, (1000, needed))
    power = np.mean(stats.mannwhitneyu(x, y, axis=1, method="asymptotic").pvalue < 0.05)
    assert 0.75 < power < 0.95
    fewer = max(2, needed // 2)
    lower = stats.mannwhitneyu(x[:, :fewer], y[:, :fewer], axis=1).pvalue < 0.05
    assert np.mean(lower) < 0.7


def test_needed_runs_at_the_edges():
    assert strata.needed_runs([[1.0, 2.0]], [[1.0, 2.0]]) == inf
    assert strata.needed_runs([[5.0]], [[1.0]]) == inf  # no spread is known
    assert strata.needed_runs([[5.0, 5.0]], [[1.0, 1.0]]) == 6  # Noether: 7.85 / (6 * 0.25)
    assert strata.needed_runs([[5.0, 5.0]], [[1.0, 1.0]], alpha=0.05 / 10) > 6
    assert strata.needed_runs([[1.0, 1.0]], [[1.0, 1.0]]) == inf


def test_performance_profile_by_brute_force():
    tasks = normal(6, 5, 8)
    levels = [-1.0, 0.0, 0.4]
    share, low, high = strata.performance_profile(tasks, levels)
    for index, level in enumerate(levels):
        by_task = [sum(score > level for score in task) / len(task) for task in tasks]
        assert share[index] == pytest.approx(sum(by_task) / 2)
    assert np.all(low <= share)
    assert np.all(share <= high)
    # One task of n runs: the count above a level is binomial in the resamples.
    (x,) = normal(7, 20)
    share, low, high = strata.performance_profile([x], [0.0], resamples=20_000)
    limits = stats.binom.ppf([0.025, 0.975], 20, share[0]) / 20
    np.testing.assert_allclose([low[0], high[0]], limits)


def test_optimality_gap_by_hand():
    gap = strata.optimality_gap([[4.0, 12.0], [1.0]], [10.0, 2.0])
    assert gap.value == pytest.approx((6 + 0 + 1) / 3)  # beyond the optimum nothing is gained


def test_paired_differences_against_scipy():
    rng = np.random.default_rng(8)
    luck = rng.normal(0, 10, 12)
    x, y = luck + rng.normal(0.8, 0.5, 12), luck + rng.normal(0, 0.5, 12)
    found = strata.paired([x], [y])
    assert found.pairs == 12
    assert found.p == pytest.approx(stats.wilcoxon(x, y).pvalue)
    assert found.difference.value == pytest.approx(np.mean(x - y))
    assert found.correlation == pytest.approx(np.corrcoef(x, y)[0, 1])
    # What the seeds share drowns the difference of unpaired runs, and not that of pairs.
    assert found.difference.interval[0] > 0 > strata.contrast([x], [y]).difference.interval[0]
    assert strata.paired([[1.0, 2.0]], [[1.0, 2.0]]).p == 1


def test_scores_are_refused_that_are_none():
    for wrong in ([], [[]], [[np.nan]], [[[1.0]]]):
        with pytest.raises(ValueError, match="scores must be"):
            strata.estimate(wrong)


def test_pairs_that_tie_are_no_trouble():
    assert 0 < strata.paired([[1.0, 2.0, 3.0]], [[1.0, 1.0, 2.0]]).p <= 1


def test_interval_and_rank_test_have_to_agree():
    """A small p alone is no verdict if the middles do not differ, or differ the other way."""

    def contrast(low: float, high: float, probability: float) -> strata.Contrast:
        difference = strata.Estimate((low + high) / 2, (low, high))
        return strata.Contrast(difference, strata.Estimate(probability, (0, 1)), 0.01)

    assert strata.verdict(contrast(1, 2, 0.9), 0.01) == "better"
    assert strata.verdict(contrast(-2, -1, 0.1), 0.01) == "worse"
    assert strata.verdict(contrast(-1, 2, 0.9), 0.01) == "undecided"
    assert strata.verdict(contrast(-2, 1, 0.1), 0.01) == "undecided"
    assert strata.verdict(contrast(1, 2, 0.4), 0.01) == "undecided"
