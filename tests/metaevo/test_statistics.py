from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

from metaevo import statistics
from metaevo.statistics.groups import FEWEST_PAIRS

NAN = np.nan


def normal(seed, *sizes, shift=0.0):
    rng = np.random.default_rng(seed)
    return {f"t{task}": rng.normal(shift, 1, size) for task, size in enumerate(sizes)}


@pytest.mark.parametrize("runs", range(1, 25))
def test_iqm_is_the_trimmed_mean_of_rliable(runs):
    scores = np.random.default_rng(runs).normal(size=(runs, 3))
    assert statistics.iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))
    np.testing.assert_allclose(statistics.iqm(scores, axis=0), stats.trim_mean(scores, 0.25, 0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.estimate([1.0, NAN, 3.0, -np.inf]), "2 of 4 scores are not finite"),
        (lambda: statistics.iqm([]), "no scores"),
        (lambda: statistics.estimate({"a": [1.0], "b": []}), "no scores"),
        (lambda: statistics.estimate(np.zeros((2, 2, 2))), r"\[runs\] or \[runs, tasks\]"),
        (lambda: statistics.compare(np.zeros((4, 2)), np.zeros((4, 3))), "2 and 3 tasks"),
        (lambda: statistics.compare([1, 2], [1, 2, 3], shared_seeds=True), "as many runs"),
        (lambda: statistics.mean_curve([1.0, 2.0]), r"\[seeds, points\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_score_counts_as_the_worst_of_its_task():
    """Of all groups: where returns are negative, a zero would be the best."""
    tables = [[[-9.0, NAN], [np.inf, 2.0]], [[-5.0, 3.0], [-7.0, 1.0]]]
    filled = statistics.fill_missing(tables, axis=(0, 1))
    np.testing.assert_array_equal(filled, [[[-9, 1], [-9, 2]], tables[1]])
    np.testing.assert_array_equal(statistics.fill_missing([NAN, NAN]), [0, 0])


def test_the_interval_matches_scipy():
    scores = np.random.default_rng(0).exponential(size=30)
    ours = statistics.estimate(scores, resamples=8000).interval
    scipys = stats.bootstrap(
        (scores,), statistics.iqm, n_resamples=8000, method="percentile", vectorized=True,
        rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    np.testing.assert_allclose(ours, scipys, atol=0.05 * (scipys.high - scipys.low))


def test_tasks_are_strata():
    """Runs are redrawn within tasks: with the levels of tasks far apart, the middle one counts."""
    noise = np.random.default_rng(0).normal(size=(40, 3))
    low, high = statistics.estimate(noise + np.array([-1e6, 0, 1e6])).interval
    assert -1 < low < high < 1


def test_summary():
    row = statistics.summarise([1.0, NAN, 10.0, 3.0, 10.0])
    assert (row["seeds"], row["mean"]) == (4, 6.0)
    assert row["iqm"] == 6.5  # the middle two of 1, 3, 10, 10
    assert statistics.summarise([7.0])["interval"] == (7.0, 7.0)
    assert statistics.summarise([NAN])["iqm"] is None


def test_mean_curve_skips_missing_values():
    curves = [[NAN, 1.0, 2.0, NAN], [NAN, NAN, 4.0, NAN], [NAN, 3.0, 6.0, 8.0]]
    mean, low, high = statistics.mean_curve(curves)
    np.testing.assert_array_equal(mean, [NAN, 2.0, 4.0, 8.0])
    np.testing.assert_array_equal(low, [NAN, 1.0, 2.0, 8.0])
    np.testing.assert_array_equal(high, [NAN, 3.0, 6.0, 8.0])


@pytest.mark.parametrize("decimals", [0, 3])  # with and without many ties
def test_probability_of_improvement_is_mann_whitney_averaged_over_tasks(decimals):
    rng = np.random.default_rng(decimals)
    x, y = rng.normal(0.5, size=13).round(decimals), rng.normal(size=9).round(decimals)
    expected = stats.mannwhitneyu(x, y).statistic / (13 * 9)
    found = statistics.probability_of_improvement(x, y)
    assert found.value == pytest.approx(expected)
    two = statistics.probability_of_improvement({"a": x, "b": [1, 1]}, {"a": y, "b": [0, 0]})
    assert two.value == pytest.approx((expected + 1) / 2)
    resampled = [
        0.5 + np.sign(np.subtract.outer(rng.choice(x, 13), rng.choice(y, 9))).mean() / 2
        for _ in range(2000)
    ]
    np.testing.assert_allclose(found.interval, np.quantile(resampled, [0.025, 0.975]), atol=0.03)


def test_the_rank_test_is_exact_for_few_runs():
    x, y = [5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]
    assert statistics.rank_test(x, y) == pytest.approx(2 / comb(8, 4))
    x, y = normal(3, 7)["t0"], normal(4, 6)["t0"]
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert statistics.rank_test(x, y) == pytest.approx(expected)
    assert statistics.rank_test(np.ones(20), np.ones(20)) == 1


def test_the_rank_test_matches_all_permutations():
    x, y = np.array([3.0, 3.0, 4.0, 9.0]), np.array([1.0, 3.0, 2.0])
    pooled = np.r_[x, y]
    u = [
        np.sign(np.subtract.outer(pooled[chosen], np.delete(pooled, chosen))).sum()
        for chosen in map(list, combinations(range(7), 4))
    ]
    observed = np.sign(np.subtract.outer(x, y)).sum()
    exact = np.mean(np.abs(u) >= abs(observed))
    assert statistics.rank_test(x, y) == pytest.approx(exact, abs=0.01)
    # Two tasks of 3 against 3, separated on both: 2 of 20 x 20 permutations are as extreme.
    high, low = np.array([[4.0, 5.0, 6.0]] * 2).T, np.array([[1.0, 2.0, 3.0]] * 2).T
    assert statistics.rank_test(high, low) == pytest.approx(2 / 400, abs=0.002)


def test_the_rank_test_is_normal_for_many_runs_on_several_tasks():
    """Against permutations, which few runs on a further task ask for; there all scores tie."""
    x, y = normal(5, 12, 9, shift=0.5), normal(6, 10, 12)
    few = statistics.rank_test(x | {"few": [1.0]}, y | {"few": [1.0]})
    assert statistics.rank_test(x, y) == pytest.approx(few, abs=0.02)


def test_holm_by_hand():
    # Sorted 0.01 x 3, 0.02 x 2, 0.04 x 1, none below the one before it.
    assert statistics.holm([0.02, 0.04, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert statistics.holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(("fewest", "paired"), [(4, False), (FEWEST_PAIRS, True)])
def test_few_separated_runs_are_enough(fewest, paired):
    for runs, words in ((fewest - 1, ["undecided"] * 2), (fewest, ["better", "worse"])):
        x, y = 2.0 * np.arange(runs) + 1000, np.arange(runs) * 1.0
        found, other = (statistics.compare(*both, shared_seeds=paired) for both in ((x, y), (y, x)))
        assert found.difference.interval[0] > 0  # the bootstrap alone would always be sure
        assert [found.conclusion, other.conclusion] == words
    assert statistics.verdict(found, 0.06) == "undecided"  # after Holm


@pytest.mark.parametrize(
    ("low", "high", "probability", "word"),
    [
        (1, 2, 0.9, "better"),
        (-2, -1, 0.1, "worse"),
        (-1, 2, 0.9, "undecided"),
        (-2, 1, 0.1, "undecided"),
        (1, 2, 0.4, "undecided"),
    ],
)
def test_interval_and_rank_test_have_to_agree(low, high, probability, word):
    """A small p alone is no verdict if the middles do not differ, or differ the other way."""
    difference = statistics.Estimate((low + high) / 2, (low, high))
    numbers = difference, statistics.Estimate(probability, (0, 1)), 0.01
    assert statistics.verdict(statistics.Comparison("undecided", *numbers), 0.01) == word


def partners(rng, runs, shift, *, shared):
    """Two groups with differences of `shift`; `shared` is the deviation of what partners share."""
    common = rng.normal(0, shared, runs)
    return common + rng.normal(shift, 1, runs), common + rng.normal(0, 1, runs)


def test_paired_intervals_have_their_nominal_coverage():
    """Coverage by simulation: 95%, with 200 resamples and 48 pairs a little less."""
    rng, held, widths, trials = np.random.default_rng(8), 0, [], 300
    for _ in range(trials):
        x, y = partners(rng, 48, 0.3, shared=5.7)  # a correlation of 0.97
        found = statistics.compare(x, y, shared_seeds=True, resamples=200)
        low, high = found.difference.interval
        held += low <= 0.3 <= high
        widths.append(high - low)
    assert stats.binom.ppf(0.001, trials, 0.93) <= held <= stats.binom.ppf(0.999, trials, 0.97)
    assert np.mean(widths) < 0.6 * np.ptp(statistics.compare(x, y).difference.interval)


def test_the_paired_test_is_wilcoxons():
    x, y = partners(np.random.default_rng(10), 20, 0.5, shared=3.0)
    result = statistics.compare(x, y, shared_seeds=True)
    assert result.p == pytest.approx(stats.wilcoxon(x - y).pvalue)
    assert result.difference.value == statistics.compare(x, y).difference.value
    halves = {"a": x[:10], "b": x[10:]}, {"a": y[:10], "b": y[10:]}
    assert statistics.signed_rank_test(*halves) == result.p
    same = statistics.compare(x, x, shared_seeds=True)
    assert (same.difference.interval, same.p) == ((0, 0), 1)
