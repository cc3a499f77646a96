"""One metric of a seed, its score, and the middle of a group's curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from metaevo.comparison.recorded import EVALUATION, SeedRun
from metaevo.config import ConfigError
from metaevo.statistics import FloatArray, mean_curve

Score = Literal["final", "area"]
FINAL_FRACTION = 0.1
POINTS = 120
"""maximum number of points of a curve"""
_EMPTY = np.empty(0)


@dataclass(frozen=True, eq=False)
class RunCurve:
    """One metric of a seed; held-out scores have no points."""

    seed: SeedRun
    x: FloatArray
    """positions of the finite values, in order"""
    y: FloatArray
    """finite values"""
    score: float
    """NaN if it has none"""

    @property
    def task(self) -> str:
        """Task of its run."""
        return self.seed.run.task


def is_held_out(metric: str) -> bool:
    """Return whether a metric is `evaluation` or `evaluation:NAME`."""
    return metric.partition(":")[0] == EVALUATION


# --- Choice -------------------------------------------------------------------------------------


def select(
    seeds: Sequence[SeedRun], metric: str | None, how: Score, notes: list[str]
) -> tuple[str, list[RunCurve]]:
    """Return the metric and its scored curves, and append to the notes.

    Curves on a task are scored at the last point that all have reached.

    Raises:
        ConfigError: a run lacks the metric, the axes differ, or no run has any records yet.
    """
    if not seeds:
        raise ConfigError("no run has recorded anything to compare yet")
    metric = metric or _default_metric(seeds, notes)
    chosen = [seed for seed in seeds if metric in seed.metrics]
    for run in {seed.run for seed in seeds} - {seed.run for seed in chosen}:
        known = ", ".join(sorted({name for s in seeds if s.run is run for name in s.metrics}))
        raise ConfigError(f"{run.name}: has no metric {metric!r}; it has: {known}")
    if is_held_out(metric):
        return metric, [
            RunCurve(seed, _EMPTY, _EMPTY, float(seed.metrics[metric][0])) for seed in chosen
        ]
    axes = {seed.axis: seed.run.name for seed in chosen}
    if len(axes) > 1:
        shown = ", ".join(f"{axis} ({name})" for axis, name in axes.items())
        raise ConfigError(f"{metric} is recorded over different axes: {shown}")
    for seed in chosen:
        if seed.is_mean:
            notes.append(
                f"{seed.run.name}: has only the mean of its agents' {metric}, which counts as one "
                "seed"
            )
    ends = _common_ends(chosen, notes)
    curves = []
    for seed in chosen:
        x, y = points_of(seed, metric)
        curves.append(RunCurve(seed, x, y, score(x, y, ends[seed.run.task], how)))
    return metric, curves


def _default_metric(seeds: Sequence[SeedRun], notes: list[str]) -> str:
    """Return the common default metric; held-out scores if all runs are evolutions that have them.

    Raises:
        ConfigError: the runs have different ones.
    """
    judged = {seed.run for seed in seeds if seed.default == EVALUATION}
    if judged == {seed.run for seed in seeds}:
        notes.append(
            "evolutions are compared by the held-out scores of their results, with one seed for "
            "each agent: the intervals do not cover the variation between evolutions "
            "(--metric fitness_of_mean shows the curves)"
        )
        return EVALUATION
    if judged:
        notes.append("held-out scores are not used, because not all runs have them")
    curved = {seed.default: seed.run.name for seed in seeds if seed.axis and seed.default}
    if len(curved) > 1:
        shown = ", ".join(f"{name} ({run})" for name, run in curved.items())
        raise ConfigError(f"the runs have different default metrics: {shown}; choose with --metric")
    return next(iter(curved), EVALUATION)


def _common_ends(seeds: Sequence[SeedRun], notes: list[str]) -> dict[str, float]:
    """Return the last position that all seeds on a task have reached."""
    reaches: dict[str, list[float]] = {}
    for seed in seeds:
        reaches.setdefault(seed.run.task, []).append(float(np.nanmax(seed.x)))
    for task, reach in reaches.items():
        if max(reach) > min(reach) * 1.001:
            notes.append(
                f"runs{f' on {task}' if task else ''} differ in length: all are scored at "
                f"{min(reach):,.6g} {seeds[0].axis}, which all have reached (the longest run has "
                f"{max(reach):,.6g})"
            )
    return {task: min(reach) for task, reach in reaches.items()}


# --- Scores -------------------------------------------------------------------------------------


def points_of(seed: SeedRun, metric: str) -> tuple[FloatArray, FloatArray]:
    """Return the finite values of a metric, sorted along the axis."""
    x, y = seed.x, seed.metrics[metric]
    known = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[known], kind="stable")
    return x[known][order], y[known][order]


def score(x: FloatArray, y: FloatArray, end: float, how: Score) -> float:
    """Reduce a curve up to `end` to one number; NaN without values.

    `final` is the mean over the last tenth (or the last value, if the last tenth has none), and
    `area` the mean height by the trapezoidal rule.
    """
    inside = x <= end * (1 + 1e-9)
    x, y = x[inside], y[inside]
    if not len(y):
        return np.nan
    if how == "area":
        width = x[-1] - x[0]
        return float(np.trapezoid(y, x) / width) if width > 0 else float(y.mean())
    late = x > (1 - FINAL_FRACTION) * end
    return float(y[late].mean() if late.any() else y[-1])


# --- Middle -------------------------------------------------------------------------------------


class Middle(NamedTuple):
    """Mean of a group's curves [points] with its 95% interval, where all its seeds have values."""

    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def grid(curves: Sequence[RunCurve]) -> FloatArray:
    """Return common points: all recorded ones, at most `POINTS`, else equally spaced ones."""
    points = np.unique(np.concatenate([curve.x for curve in curves]))
    return points if len(points) <= POINTS else np.linspace(points[0], points[-1], POINTS)


def middle(curves: Sequence[RunCurve], points: FloatArray) -> Middle:
    """Return the mean over seeds of linearly interpolated curves.

    Points before the last seed starts or after the first one ends are left out; seeds without any
    value are ignored.
    """
    known = [curve for curve in curves if len(curve.x)]
    for curve in known:
        points = points[(points >= curve.x[0]) & (points <= curve.x[-1])]
    if not known or not len(points):
        return Middle(_EMPTY, _EMPTY, _EMPTY, _EMPTY)
    return Middle(points, *mean_curve([np.interp(points, each.x, each.y) for each in known]))
