"""Rank tests, and a correction for multiple tests."""

from collections.abc import Sequence

import numpy as np

from metaevo.statistics.scores import FloatArray, Strata, arrays_of

_PERMUTATIONS = 20_000


def rank_test(x: Strata, y: Strata) -> float:
    """Two-sided p-value of the hypothesis that x and y are exchangeable within each task.

    On one task this is the Mann-Whitney test, exact for few runs without ties. On several tasks the
    statistic is the sum over tasks of U divided by its largest value; its distribution is normal
    with more than 8 runs per group on every task, otherwise estimated by permutations (also for few
    runs with ties).
    """
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    xs, ys = arrays_of(x), arrays_of(y)
    ties = any(len(np.unique(np.r_[a, b])) < len(a) + len(b) for a, b in zip(xs, ys, strict=True))
    large = all(min(len(a), len(b)) > 8 for a, b in zip(xs, ys, strict=True))
    if len(xs) == 1 and (large or not ties):
        if len(np.unique(np.r_[xs[0], ys[0]])) == 1:
            return 1.0
        return float(scipy.stats.mannwhitneyu(xs[0], ys[0], alternative="two-sided").pvalue)
    rng = np.random.default_rng(0)
    observed, variance, drawn = 0.0, 0.0, np.zeros(_PERMUTATIONS)
    for a, b in zip(xs, ys, strict=True):
        n, m = len(a), len(b)
        ranks = scipy.stats.rankdata(np.r_[a, b]) / (n * m)
        ranks -= ranks.mean()
        observed += ranks[:n].sum()
        variance += n * m * ranks.var(ddof=1) / (n + m)
        if not large:
            permuted = rng.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
            drawn += permuted[:, :n].sum(axis=1)
    if variance == 0:
        return 1.0
    if large:
        return float(2 * scipy.stats.norm.sf(abs(observed) / np.sqrt(variance)))
    return _share(drawn, observed)


def signed_rank_test(x: Strata, y: Strata) -> float:
    """Two-sided p-value of the paired signed-rank test; 1 if all pairs tie.

    x[task][i] and y[task][i] are partners: they used the same random numbers. On one task this is
    Wilcoxon's signed-rank test. On several tasks the statistic is the sum over tasks of the signed
    ranks divided by their largest sum, so that all tasks have equal weight; its distribution is
    normal with more than 8 pairs on every task, otherwise estimated by random signs.
    """
    import scipy.stats  # takes half a second, which scripts that only train need not wait

    pairs = zip(arrays_of(x), arrays_of(y), strict=True)
    differences = [each[each != 0] for each in (a - b for a, b in pairs)]
    differences = [each for each in differences if len(each)]
    if len(differences) < 2:
        if not differences:
            return 1.0
        return float(scipy.stats.wilcoxon(differences[0], method="auto").pvalue)
    signed = []
    for each in differences:
        ranks = scipy.stats.rankdata(np.abs(each))
        signed.append(np.sign(each) * ranks / ranks.sum())
    every = np.concatenate(signed)
    observed = abs(every.sum())
    if min(map(len, differences)) > 8:
        return float(2 * scipy.stats.norm.sf(observed / np.sqrt((every**2).sum())))
    rng = np.random.default_rng(0)
    signs = rng.choice((-1.0, 1.0), size=(_PERMUTATIONS, len(every)))
    return _share(signs @ np.abs(every), observed)


def _share(drawn: FloatArray, observed: float) -> float:
    """Return the p-value: the share of drawn statistics that are at least as extreme."""
    extreme = np.abs(drawn) >= abs(observed) - 1e-9
    return float((1 + extreme.sum()) / (1 + _PERMUTATIONS))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple tests by Holm's method (1979)."""
    order = np.argsort(p_values)
    adjusted, largest = np.empty(len(order)), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]
