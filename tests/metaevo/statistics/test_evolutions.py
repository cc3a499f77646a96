"""Several evolutions together: against plain loops, SciPy and simulations."""

import numpy as np
import pytest
from scipy import stats

from metaevo import statistics


def evolutions(seed, count, runs=16, *, spread=1.0, tasks=1):
    """The scores of so many evolutions, which differ by `spread`, each a list of tasks."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, spread, count)
    return [[rng.normal(centre, 1, runs) for _ in range(tasks)] for centre in centres]


def test_the_interval_matches_nested_resampling():
    found = evolutions(0, 12, runs=5)
    rng, drawn = np.random.default_rng(1), []
    for _ in range(3000):
        means = []
        for which in rng.choice(12, size=12):
            (scores,) = found[which]
            means.append(np.mean(sorted(rng.choice(scores, size=5))[1:4]))
        drawn.append(np.mean(means))
    value, interval = statistics.mean_of_evolutions(found)
    assert value == pytest.approx(np.mean([stats.trim_mean(s, 0.25) for (s,) in found]))
    expected = np.quantile(drawn, statistics.expanded(12))
    assert interval == pytest.approx(tuple(expected), abs=0.2 * np.std(drawn))


def test_both_variances_widen_the_interval():
    """All evolutions alike: the runs' own error is left; runs alike: that of the evolutions."""
    (scores,) = evolutions(2, 1, runs=64)[0]
    alike = statistics.mean_of_evolutions([[scores]] * 400, resamples=500)
    assert np.ptp(alike.interval) == pytest.approx(4 * scores.std() / np.sqrt(64 * 400), rel=0.4)
    constant = [[np.full(8, float(each))] for each in range(10)]
    value, (low, high) = statistics.mean_of_evolutions(constant)
    assert value == pytest.approx(4.5)
    t = stats.t.interval(0.95, 9, 4.5, stats.sem(np.arange(10)))
    assert (low, high) == pytest.approx(t, abs=0.3)


def test_quantiles_are_further_out_for_few_units():
    low, high = statistics.expanded(5)
    reach = stats.t.ppf(0.975, 4) * np.sqrt(5 / 4)
    assert low == pytest.approx(stats.norm.cdf(-reach))
    assert low == pytest.approx(0.00096, abs=1e-5)  # t = 2.776 with 4 degrees, times 1.118
    assert high == 1 - low
    assert statistics.expanded(10_000)[0] == pytest.approx(0.025, abs=1e-4)
    assert statistics.expanded(1) == (0.025, 0.975)


def test_the_best_baseline_is_compared():
    high = [[each + 5.0 for each in one] for one in evolutions(4, 5, spread=0.1)]
    weak, strong = np.zeros(32), np.random.default_rng(5).normal(2.0, 0.5, 32)
    found = statistics.together(high, [[weak], [strong]])
    assert found.difference == pytest.approx(found.iqm - statistics.iqm(strong))
    assert found.conclusion == "better"
    differences = [statistics.iqm(one[0]) - statistics.iqm(strong) for one in high]
    assert found.p == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
    low, upper = found.difference_interval
    assert 0 < low < found.difference < upper
    assert statistics.together([[weak]] * 3, [[strong]]).conclusion == "worse"
    assert statistics.together([[weak]] * 3, [[weak]]).conclusion == "undecided"


@pytest.mark.parametrize("count", [2, 3, 5])
def test_equal_groups_are_rarely_better_or_worse(count):
    """Evolutions that differ by as much as their agents do, around what the other one has."""
    rng, claims = np.random.default_rng(6), 0
    for index in range(200):
        other = [rng.normal(0, 1, 64)]
        found = statistics.together(evolutions(100 + index, count), [other], resamples=300)
        claims += found.conclusion != "undecided"
    assert claims <= 20  # 5% are 10 of 200, with a standard deviation of 3
