"""One metric of a seed along an axis, its score, and the middle of a group's curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from metaevo.comparison.seed_run import AXES, EVALUATION, FITNESS, SeedRun, direction
from metaevo.config import ConfigError
from metaevo.statistics import FloatArray, iqm

Score = Literal["final", "area", "best"]
FINAL_FRACTION = 0.1
POINTS = 120
"""maximum number of points of a curve"""
RESAMPLES = 400
_EMPTY = np.empty(0)


@dataclass(frozen=True, eq=False)
class RunCurve:
    """One metric of a seed along an axis; held-out scores have no points."""

    seed: SeedRun
    x: FloatArray
    """positions of the finite values, in order"""
    y: FloatArray
    """finite values"""
    score: float
    """NaN if it has none"""


def is_held_out(metric: str) -> bool:
    """Return whether a metric is `evaluation` or `evaluation:VARIANT`."""
    return metric.partition(":")[0] == EVALUATION


# --- Choice -------------------------------------------------------------------------------------


def select(
    seeds: Sequence[SeedRun],
    metric: str | None,
    align: str | None,
    how: Score,
    full_length: bool,
    notes: list[str],
) -> tuple[str, str, list[RunCurve]]:
    """Return metric, axis and scored curves, and append to the notes.

    Raises:
        ConfigError: a run lacks the metric or the axis, or no run has any records yet.
    """
    if not seeds:
        raise ConfigError("no run has recorded anything to compare yet")
    metric = metric or default_metric(seeds, notes)
    chosen = with_metric(seeds, metric)
    if is_held_out(metric):
        return metric, "steps", [
            RunCurve(seed, _EMPTY, _EMPTY, float(value))
            for seed in chosen
            for (value,) in seed.metrics.values()
        ]  # fmt: skip
    axis = align or default_axis(chosen)
    for run in dict.fromkeys(seed.run for seed in chosen if seed.is_mean):
        notes.append(f"{run}: has only the mean of its agents' {metric}, which counts as one seed")
    return metric, axis, scored_curves(chosen, metric, axis, how, full_length, notes)


def default_metric(seeds: Sequence[SeedRun], notes: list[str]) -> str:
    """Return the common default metric; held-out scores if all evolutions have the same ones.

    Raises:
        ConfigError: the runs have different ones.
    """
    curved: dict[str, str] = {}
    held_out: dict[str, set[str]] = {seed.run: set() for seed in seeds}
    for seed in seeds:
        if seed.default and is_held_out(seed.default):
            held_out[seed.run].add(seed.default)
        elif seed.default:
            curved.setdefault(seed.default, seed.run)
    variants = set().union(*held_out.values())
    if len(variants) == 1 and all(held_out.values()):
        notes.append(
            "evolutions are compared by the held-out scores of their results, with one seed for "
            "each agent: the intervals do not cover the variation between evolutions "
            "(--metric fitness_of_mean shows the curves)"
        )
        return variants.pop()
    if variants:
        notes.append("held-out scores are not used, because not all runs have those of one variant")
    if len(curved) > 1:
        shown = ", ".join(f"{name} ({run})" for name, run in curved.items())
        raise ConfigError(f"the runs have different default metrics: {shown}; choose with --metric")
    return next(iter(curved), EVALUATION)


def with_metric(seeds: Sequence[SeedRun], metric: str) -> list[SeedRun]:
    """Return the seeds that have a metric, without the mean of agents that have it themselves.

    Raises:
        ConfigError: no seed of a run has it.
    """
    every = metric == EVALUATION
    found = [
        seed
        for seed in seeds
        if metric in seed.metrics or (every and any(map(is_held_out, seed.metrics)))
    ]
    runs = {seed.run for seed in found}
    for seed in seeds:
        if seed.run not in runs:
            names = {name for each in seeds if each.run == seed.run for name in each.metrics}
            names |= {EVALUATION for name in names if is_held_out(name)}
            known = ", ".join(sorted(names))
            raise ConfigError(f"{seed.run}: has no metric {metric!r}; it has: {known}")
    agents = {seed.origin for seed in found if not seed.is_mean}
    return [seed for seed in found if not (seed.is_mean and seed.origin in agents)]


def default_axis(seeds: Sequence[SeedRun]) -> str:
    """Return generations if all runs are evolutions or sweeps, else steps, else seconds."""
    evolve = all("steps" not in seed.axes or seed.metrics.keys() & set(FITNESS) for seed in seeds)
    for axis in ("generations", "steps", "seconds") if evolve else ("steps", "seconds"):
        if all(axis in seed.axes for seed in seeds):
            return axis
    raise ConfigError("the runs have no axis in common; choose one with --align")


# --- Scores -------------------------------------------------------------------------------------


def scored_curves(
    seeds: Sequence[SeedRun],
    metric: str,
    axis: str,
    how: Score,
    full_length: bool,
    notes: list[str],
) -> list[RunCurve]:
    """Return the curves of a metric, scored at the last point that all on a task have reached.

    Raises:
        ConfigError: a run lacks the axis.
    """
    reaches: dict[str, dict[SeedRun, float]] = {}
    for seed in seeds:
        if axis not in seed.axes:
            known = ", ".join(each for each in AXES if each in seed.axes)
            raise ConfigError(f"{seed.run}: cannot be aligned by {axis}; it has: {known}")
        reaches.setdefault(seed.task, {})[seed] = float(np.nanmax(seed.axes[axis]))
    for task, reach in reaches.items():
        first, last = min(reach.values()), max(reach.values())
        # Wall clocks of equal runs differ a little.
        if last > first * (1.2 if axis == "seconds" else 1.001):
            how_far = "each is scored at its own end" if full_length else (
                f"all are scored at {first:,.6g} {AXES[axis]}, which all have reached (the longest "
                f"run has {last:,.6g}); --full-length scores each at its own end"
            )  # fmt: skip
            on = f" on {task}" if task else ""
            notes.append(f"runs{on} differ in length: {how_far}")
    lower = direction(metric) == "lower"
    found = []
    for seed in seeds:
        reach = reaches[seed.task]
        end = reach[seed] if full_length else min(reach.values())
        x, y = points_of(seed, metric, axis)
        found.append(RunCurve(seed, x, y, score(x, y, end, how, lower_is_better=lower)))
    return found


def points_of(seed: SeedRun, metric: str, axis: str) -> tuple[FloatArray, FloatArray]:
    """Return the finite values of a metric, sorted along the axis."""
    x, y = seed.axes[axis], seed.metrics[metric]
    known = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[known], kind="stable")
    return x[known][order], y[known][order]


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


# --- Middle -------------------------------------------------------------------------------------


class Middle(NamedTuple):
    """Interquartile mean of a group's curves where all its seeds have values."""

    x: FloatArray
    iqm: FloatArray
    low: FloatArray
    high: FloatArray


def grid(curves: Sequence[RunCurve]) -> FloatArray:
    """Return common points: all recorded ones, at most `POINTS`, else equally spaced ones."""
    points = np.unique(np.concatenate([curve.x for curve in curves]))
    return points if len(points) <= POINTS else np.linspace(points[0], points[-1], POINTS)


def middle(curves: Sequence[RunCurve], points: FloatArray) -> Middle:
    """Return the IQM over seeds of linearly interpolated curves, and its 95% interval.

    Points before the last seed starts or after the first one ends are left out; seeds without any
    value are ignored. The bootstrap resamples whole seeds, so the band covers whole curves.
    """
    known = [curve for curve in curves if len(curve.x)]
    start = max((curve.x[0] for curve in known), default=np.inf)
    end = min((curve.x[-1] for curve in known), default=-np.inf)
    points = points[(points >= start) & (points <= end)]
    if not len(points):
        return Middle(_EMPTY, _EMPTY, _EMPTY, _EMPTY)
    values = np.stack([np.interp(points, curve.x, curve.y) for curve in known])
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    resampled = np.stack([iqm(values[rows], axis=0) for rows in drawn])
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return Middle(points, iqm(values, axis=0), low, high)
