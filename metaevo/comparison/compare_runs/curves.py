"""Curves on a common axis, and the one number by which a seed is judged."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metaevo.comparison.compare_runs.seed_run import FloatArray, SeedRun
from metaevo.config import ConfigError

Score = Literal["final", "area", "best"]
FINAL_FRACTION = 0.1
POINTS = 120
"""of a curve, at most"""
SMOOTHING = 20
"""A curve is smoothed over one in so many of its points."""


def default_axis(seeds: Sequence[SeedRun]) -> str:
    """Return generations if all runs have them (evolutions, sweeps), else steps, else seconds."""
    for axis in ("generations", "steps", "seconds"):
        has = all(axis in seed.axes for seed in seeds)
        if has and (
            axis != "generations" or all("steps" not in s.axes or _evolves(s) for s in seeds)
        ):
            return axis
    raise ConfigError("the runs have no axis in common; name one with --align")


def _evolves(seed: SeedRun) -> bool:
    return bool({"fitness_mean", "fitness_of_mean", "best_value"} & set(seed.metrics))


def curve(seed: SeedRun, metric: str, axis: str) -> tuple[FloatArray, FloatArray]:
    """Where the metric is known, and its values there, in the order of the axis."""
    if axis not in seed.axes or metric not in seed.metrics:
        return np.empty(0), np.empty(0)
    x, y = seed.axes[axis], seed.metrics[metric]
    known = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[known], kind="stable")
    return x[known][order], y[known][order]


def reach(seed: SeedRun, axis: str) -> float:
    """Return the end of a seed, whether or not the metric is known there."""
    values = seed.axes.get(axis, np.empty(0))
    return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0


def common_reach(seeds: Sequence[SeedRun], axis: str) -> float:
    """Return the end of the shortest seed."""
    return min(reach(seed, axis) for seed in seeds)


def score(
    x: FloatArray, y: FloatArray, end: float, how: Score, *, lower_is_better: bool = False
) -> float:
    """Return one number for a curve up to `end`; NaN without values.

    `final` is the mean of the records in the last tenth (the last record if
    there is none), `area` the mean height of the curve (trapezoids over its width), `best` its best
    point.
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


def grid(curves: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Points for all curves: those recorded if they are few, else equally spaced ones."""
    known = [x for x, _ in curves if len(x)]
    if not known:
        return np.empty(0)
    points = np.unique(np.concatenate(known))
    if len(points) > POINTS:
        points = np.linspace(points[0], points[-1], POINTS)
    return points


def align(curves: Sequence[tuple[FloatArray, FloatArray]], points: FloatArray) -> FloatArray:
    """The curves [seeds, points] by linear interpolation; NaN outside the range of a seed."""
    aligned = np.full((len(curves), len(points)), np.nan)
    for row, (x, y) in zip(aligned, curves, strict=True):
        if len(x):
            inside = (points >= x[0]) & (points <= x[-1])
            row[inside] = np.interp(points[inside], x, y)
    return aligned


def smooth(y: FloatArray) -> FloatArray:
    """Return the mean of every point and its neighbours, a twentieth of the curve in all.

    Near the ends fewer neighbours count, as many on both sides, so that the curve is not shifted.
    The page draws the same (`smooth` in page.js).
    """
    half = len(y) // (2 * SMOOTHING)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    at = np.arange(len(y))
    reach = np.minimum(half, np.minimum(at, len(y) - 1 - at))
    return np.asarray((sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1))


def shared(aligned: FloatArray) -> NDArray[np.bool_]:
    """Which points [points] all seeds of a group have reached; seeds without a curve are no bar."""
    present = np.isfinite(aligned)
    return np.asarray(present[present.any(axis=1)].all(axis=0) & present.any())
