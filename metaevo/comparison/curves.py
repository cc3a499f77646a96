"""Curves on a common axis, the score of a curve, and the middle of a group's curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from metaevo.comparison.seed_run import SeedRun
from metaevo.config import ConfigError
from metaevo.statistics import FloatArray, iqm

Score = Literal["final", "area", "best"]
Curve = tuple[FloatArray, FloatArray]
"""x and y of one seed"""
FINAL_FRACTION = 0.1
POINTS = 120
"""maximum number of points of a curve"""
RESAMPLES = 400


def default_axis(seeds: Sequence[SeedRun]) -> str:
    """Return generations if all runs are evolutions or sweeps, else steps, else seconds."""
    for axis in ("generations", "steps", "seconds"):
        has = all(axis in seed.axes for seed in seeds)
        if has and (
            axis != "generations" or all("steps" not in s.axes or _evolves(s) for s in seeds)
        ):
            return axis
    raise ConfigError("the runs have no axis in common; choose one with --align")


def _evolves(seed: SeedRun) -> bool:
    return bool({"fitness_mean", "fitness_of_mean", "best_value"} & set(seed.metrics))


def curve(seed: SeedRun, metric: str, axis: str) -> Curve:
    """Return the finite values of a metric, sorted along the axis."""
    x, y = seed.axes[axis], seed.metrics[metric]
    known = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[known], kind="stable")
    return x[known][order], y[known][order]


def reach(seed: SeedRun, axis: str) -> float:
    """Return the last position of a seed on the axis, with or without a value of the metric."""
    return float(np.nanmax(seed.axes[axis]))


def score(
    x: FloatArray, y: FloatArray, end: float, how: Score, *, lower_is_better: bool = False
) -> float:
    """Reduce a curve up to `end` to one number; NaN without values.

    `final` is the mean over the last tenth (or the last value, if the last tenth has none), `area`
    the mean height by the trapezoidal rule, and `best` the best point.
    """
    inside = x <= end * (1 + 1e-9)
    x, y = x[inside], y[inside]
    if not len(y):
        return np.nan
    if how == "best":
        return float(y.min() if lower_is_better else y.max())
    if how == "area":
        width = x[-1] - x[0]
        return float(np.trapezoid(y, x) / width) if width > 0 else float(y.mean())
    late = x > (1 - FINAL_FRACTION) * end
    return float(y[late].mean() if late.any() else y[-1])


def grid(curves: Sequence[Curve]) -> FloatArray:
    """Return common points: all recorded ones, at most `POINTS`, else equally spaced ones."""
    known = [x for x, _ in curves if len(x)]
    if not known:
        return np.empty(0)
    points = np.unique(np.concatenate(known))
    return points if len(points) <= POINTS else np.linspace(points[0], points[-1], POINTS)


def align(curves: Sequence[Curve], points: FloatArray) -> FloatArray:
    """Interpolate curves linearly to [seeds, points]; NaN outside a seed's range."""
    aligned = np.full((len(curves), len(points)), np.nan)
    for row, (x, y) in zip(aligned, curves, strict=True):
        if len(x):
            inside = (points >= x[0]) & (points <= x[-1])
            row[inside] = np.interp(points[inside], x, y)
    return aligned


@dataclass(frozen=True)
class Middle:
    """Interquartile mean of a group's curves where all its seeds have values."""

    x: FloatArray
    iqm: FloatArray
    low: FloatArray
    high: FloatArray


def middle(x: FloatArray, aligned: FloatArray) -> Middle:
    """Return the IQM over seeds [seeds, points] and its 95% interval.

    Points before the last seed starts or after the first one ends are left out; seeds without any
    value are ignored. The bootstrap resamples whole seeds, so the band covers whole curves.
    """
    aligned = aligned[np.isfinite(aligned).any(axis=1)]
    inside = np.isfinite(aligned).all(axis=0) & bool(len(aligned))
    values = aligned[:, inside]
    if not values.size:
        empty = np.empty(0)
        return Middle(empty, empty, empty, empty)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(values), size=(RESAMPLES, len(values)))
    resampled = np.stack([iqm(values[rows], axis=0) for rows in drawn])
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return Middle(x[inside], iqm(values, axis=0), low, high)
