"""Statistics against hand-computed cases, SciPy, brute force and a simulation of coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from metaevo import statistics


def of_mean(samples: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(samples, axis=-1).mean(axis=-1)


def interval(scores, statistic=statistics.pooled_iqm, **options):
    return statistics.estimate(statistics.strata_of(scores), statistic, **options).interval


def probability(x, y, **options):
    strata = statistics.strata_of(x), statistics.strata_of(y)
    return statistics.probability_of_improvement(*strata, **options)


FINITE = st.floats(-1e3, 1e3, allow_subnormal=False)
RUNS = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=FINITE)


@pytest.mark.parametrize("runs", range(1, 25))
def test_iqm_is_the_trimmed_mean_of_rliable(runs):
    scores = np.random.default_rng(runs).normal(size=(runs, 3))
    assert statistics.iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))
    np.testing.assert_allclose(statistics.iqm(scores, axis=0), stats.trim_mean(scores, 0.25, 0))


def test_non_finite_scores_are_counted_in_the_refusal():
    scores = [1.0, np.nan, 3.0, -np.inf]
    for function in (statistics.iqm, statistics.strata_of, statistics.summarise):
        with pytest.raises(ValueError, match="2 of 4 scores are not finite"):
            function(scores)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.summarise([]), "no scores"),
        (lambda: statistics.summarise(3.0), r"\[runs\] or \[runs, tasks\]"),
        (lambda: statistics.summarise(np.zeros((2, 2, 2))), r"\[runs\] or \[runs, tasks\]"),
        (lambda: statistics.compare(np.zeros((4, 2)), np.zeros((4, 3))), "2 and 3 tasks"),
        (lambda: statistics.mean_curve([1.0, 2.0]), r"\[seeds, points\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_interval_of_the_mean_matches_scipy():
    scores = np.random.default_rng(0).exponential(size=30)
    ours = interval(scores, of_mean, resamples=8000)
    scipys = stats.bootstrap(
        (scores,), np.mean, n_resamples=8000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    np.testing.assert_allclose(ours, scipys, atol=0.05 * (scipys.high - scipys.low))


def test_tasks_are_strata():
    """Runs are redrawn within tasks: levels of the tasks add nothing to the interval."""
    noise = np.random.default_rng(0).normal(size=(40, 3))
    low, high = interval(noise + np.array([0, 1e3, 1e6]), of_mean)
    expected = 2 * 1.96 * np.sqrt((noise.var(axis=0) / 40).sum()) / 3
    assert high - low == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("decimals", [0, 3])  # with and without many ties
def test_probability_of_improvement_is_mann_whitney(decimals):
    rng = np.random.default_rng(decimals)
    x, y = rng.normal(0.5, size=13).round(decimals), rng.normal(size=9).round(decimals)
    expected = stats.mannwhitneyu(x, y).statistic / (13 * 9)
    assert probability(x, y).value == pytest.approx(expected)


def test_probability_of_improvement_averages_over_tasks():
    x, y = np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    assert probability(x, y).value == pytest.approx((1 + 0.25) / 2)


def test_the_probability_interval_matches_resampling():
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.4, size=(12, 2)), rng.normal(size=(9, 2))
    resampled = []
    for _ in range(4000):
        redrawn = [
            np.stack([rng.choice(task, len(task)) for task in scores.T], axis=1)
            for scores in (x, y)
        ]
        resampled.append(probability(*redrawn, resamples=1).value)
    ours = probability(x, y, resamples=4000).interval
    np.testing.assert_allclose(ours, np.quantile(resampled, [0.025, 0.975]), atol=0.02)


def test_summary():
    summary = statistics.summarise([[1.0, 10.0], [3.0, 10.0]])
    assert summary.mean == 6.0
    assert summary.iqm == 6.5  # the middle two of 1, 3, 10, 10
    assert summary.std == pytest.approx(1.0)  # variances 2 and 0
    assert summary.seeds == 2
    assert statistics.summarise([7.0]) == statistics.Summary(7.0, (7.0, 7.0), 7.0, 0.0, 1)


def test_mean_curve_skips_missing_values():
    nan = np.nan
    curves = [[nan, 1.0, 2.0, nan], [nan, nan, 4.0, nan], [nan, 3.0, 6.0, 8.0]]
    mean, low, high = statistics.mean_curve(curves)
    np.testing.assert_array_equal(mean, [nan, 2.0, 4.0, 8.0])
    np.testing.assert_array_equal(low, [nan, 1.0, 2.0, 8.0])
    np.testing.assert_array_equal(high, [nan, 3.0, 6.0, 8.0])


def test_mean_curve_interval_is_the_bootstrap_of_each_point():
    curves = np.random.default_rng(0).normal(size=(20, 3))
    _, low, high = statistics.mean_curve(curves, resamples=5000)
    for point in range(3):
        expected = interval(curves[:, point], of_mean, resamples=5000)
        np.testing.assert_allclose((low[point], high[point]), expected, atol=0.05)


@settings(max_examples=60, deadline=None)
@given(scores=RUNS, shift=FINITE, scale=st.floats(0.1, 10))
def test_intervals_are_ordered_and_follow_shift_and_scale(scores, shift, scale):
    low, high = interval(scores, resamples=100)
    assert scores.min() - 1e-9 <= low <= high <= scores.max() + 1e-9
    moved = interval(scale * scores + shift, resamples=100)
    np.testing.assert_allclose(moved, (scale * low + shift, scale * high + shift), atol=1e-7)
