"""Statistics of groups against SciPy, brute force, hand-computed cases and simulations."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

from metaevo import statistics


def normal(seed: int, *sizes: int, shift: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(shift, 1, size) for size in sizes]


def test_the_rank_test_is_exact_for_few_runs():
    x, y = [5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]
    assert statistics.rank_test([x], [y]) == pytest.approx(2 / comb(8, 4))
    x, y = normal(3, 7)[0], normal(4, 6)[0]
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert statistics.rank_test([x], [y]) == pytest.approx(expected)
    assert statistics.rank_test([np.ones(20)], [np.ones(20)]) == 1


def test_the_rank_test_matches_all_permutations():
    x, y = [np.array([3.0, 3.0, 4.0, 9.0])], [np.array([1.0, 3.0, 2.0])]
    u = [
        np.sign(np.subtract.outer(part, np.delete(pooled, chosen))).sum()
        for pooled in [np.r_[x[0], y[0]]]
        for chosen in map(list, combinations(range(7), 4))
        for part in [pooled[chosen]]
    ]
    observed = np.sign(np.subtract.outer(x[0], y[0])).sum()
    exact = np.mean(np.abs(u) >= abs(observed))
    assert statistics.rank_test(x, y) == pytest.approx(exact, abs=0.01)
    # Two tasks of 3 against 3, separated on both: 2 of 20 x 20 permutations are as extreme.
    high, low = [np.array([4.0, 5.0, 6.0])] * 2, [np.array([1.0, 2.0, 3.0])] * 2
    assert statistics.rank_test(high, low) == pytest.approx(2 / 400, abs=0.002)


def test_holm_by_hand():
    # Sorted 0.01 x 3, 0.02 x 2, 0.04 x 1, none below the one before it.
    assert statistics.holm([0.02, 0.04, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert statistics.holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("runs", [2, 3])
def test_too_few_runs_are_undecided(runs: int):
    x, y = np.arange(runs) + 1000.0, np.arange(runs) * 1.0
    result = statistics.compare_strata([x], [y])
    assert result.difference_interval[0] > 0  # the bootstrap alone would be sure
    assert statistics.verdict(result, result.p) == "undecided"


def test_four_separated_runs_are_enough_and_the_verdict_has_a_direction():
    x, y = np.arange(4) + 10.0, np.arange(4) * 1.0
    for first, second, expected in ((x, y, "better"), (y, x, "worse")):
        result = statistics.compare_strata([first], [second])
        assert statistics.verdict(result, result.p) == expected
    result = statistics.compare_strata([x], [y])
    assert statistics.verdict(result, 0.06) == "undecided"  # after Holm


def test_interval_and_rank_test_have_to_agree():
    """A small p alone is no verdict if the middles do not differ, or differ the other way."""

    def verdict(low: float, high: float, probability: float) -> str:
        numbers = (low + high) / 2, (low, high), probability, (0, 1), 0.01
        return statistics.verdict(statistics.Comparison("undecided", *numbers), 0.01)

    assert verdict(1, 2, 0.9) == "better"
    assert verdict(-2, -1, 0.1) == "worse"
    assert verdict(-1, 2, 0.9) == "undecided"
    assert verdict(-2, 1, 0.1) == "undecided"
    assert verdict(1, 2, 0.4) == "undecided"


def test_a_missing_score_counts_as_the_worst_of_its_task():
    """Of all groups: where returns are negative, a zero would be the best."""
    tables = {"a": [[-9.0, np.nan], [np.inf, 2.0]], "b": [[-5.0, 3.0], [-7.0, 1.0]]}
    filled = statistics.fill_missing(tables)
    np.testing.assert_array_equal(filled["a"], [[-9, 1], [-9, 2]])
    np.testing.assert_array_equal(filled["b"], tables["b"])
    np.testing.assert_array_equal(statistics.fill_missing({0: [np.nan, np.nan]})[0], [0, 0])


# --- Groups that share their seeds --------------------------------------------------------------


def partners(rng, runs, shift, *, shared):
    """Two groups with differences of `shift`; `shared` is the deviation of what partners share."""
    common = rng.normal(0, shared, runs)
    return [common + rng.normal(shift, 1, runs)], [common + rng.normal(0, 1, runs)]


@pytest.mark.parametrize("shared", [0.0, 5.7])  # correlations of 0 and 0.97
def test_paired_intervals_have_their_nominal_coverage(shared):
    """Coverage by simulation: 95%, with 200 resamples and 48 pairs a little less."""
    rng, held, widths, trials = np.random.default_rng(8), 0, [], 300
    for _ in range(trials):
        x, y = partners(rng, 48, 0.3, shared=shared)
        found = statistics.compare_strata(x, y, shared_seeds=True, resamples=200)
        low, high = found.difference_interval
        held += low <= 0.3 <= high
        widths.append(high - low)
    assert stats.binom.ppf(0.001, trials, 0.93) <= held <= stats.binom.ppf(0.999, trials, 0.97)
    apart = np.ptp(statistics.compare_strata(x, y).difference_interval)
    if shared:
        assert np.mean(widths) < 0.6 * apart
    else:
        assert np.mean(widths) == pytest.approx(apart, rel=0.35)


def test_the_paired_test_is_wilcoxons():
    x, y = partners(np.random.default_rng(10), 20, 0.5, shared=3.0)
    result = statistics.compare_strata(x, y, shared_seeds=True)
    assert result.p == pytest.approx(stats.wilcoxon(x[0] - y[0]).pvalue)
    assert result.difference == statistics.compare_strata(x, y).difference
    assert statistics.compare_strata(x, x, shared_seeds=True).difference_interval == (0, 0)
    with pytest.raises(ValueError, match="as many runs"):
        statistics.compare_strata(x, [y[0][:-1]], shared_seeds=True)


def test_tasks_have_equal_weight_in_the_signed_rank_test():
    """Against random signs; large differences on one task do not outrank those of the others."""
    rng = np.random.default_rng(11)
    differences = [rng.normal(-0.5, 1, 12), rng.normal(-0.5, 1, 12), 100 * rng.normal(0.2, 1, 12)]
    x, y = [each + 5.0 for each in differences], [np.full(12, 5.0)] * 3
    shares = [stats.rankdata(np.abs(each)) / 78 for each in differences]
    observed = sum(np.sign(d) @ r for d, r in zip(differences, shares, strict=True))
    drawn = [
        abs(sum(rng.choice([-1, 1], 12) @ each for each in shares)) >= abs(observed)
        for _ in range(10_000)
    ]
    found = statistics.signed_rank_test(x, y)
    assert found == pytest.approx(np.mean(drawn), abs=0.02)
    few = [each[:7] for each in x], [each[:7] for each in y]  # by random signs
    shares = [stats.rankdata(np.abs(each[:7])) / 28 for each in differences]
    observed = sum(np.sign(d[:7]) @ r for d, r in zip(differences, shares, strict=True))
    signs = rng.choice([-1, 1], (10_000, 21)) @ np.concatenate(shares)
    expected = np.mean(np.abs(signs) >= abs(observed) - 1e-9)
    assert statistics.signed_rank_test(*few) == pytest.approx(expected, abs=0.02)
