"""Sample efficiency: the middle of a group's curves, and how soon it reaches a threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.directions import EVALUATION
from metaevo.comparison.compare_runs.grouping import Group
from metaevo.comparison.compare_runs.seed_run import FloatArray
from metaevo.comparison.compare_runs.selection import Selection
from metaevo.statistics import iqm

RESAMPLES = 400
_SHARE_OF_WAY = 0.9
"""The default threshold: from the worst to the best point of any group's middle curve."""


@dataclass(frozen=True)
class Middle:
    """The interquartile mean over the seeds of a group, as far as all have come."""

    x: FloatArray
    iqm: FloatArray
    low: FloatArray
    high: FloatArray
    resampled: FloatArray
    """[resamples, points]"""


@dataclass(frozen=True)
class Efficiency:
    """How soon a group reaches the threshold on a task."""

    label: str
    task: str
    threshold: float
    reached_at: float | None
    """where the middle curve first does; None if it does not"""
    interval: tuple[float | None, float | None]
    """95% bootstrap; None for not at all"""
    seeds: int
    seeds_that_reach: int
    middle: Middle


def middle(x: FloatArray, aligned: FloatArray, resamples: int = RESAMPLES, seed: int = 0) -> Middle:
    """IQM over seeds [seeds, points] at every point that all have reached, with 95% interval.

    Whole seeds are redrawn, so that a band shows the uncertainty of the whole curve.
    """
    aligned = aligned[np.isfinite(aligned).any(axis=1)]
    inside = curves.shared(aligned) if len(aligned) else np.zeros(len(x), dtype=bool)
    values = aligned[:, inside]
    if not values.size:
        empty = np.empty(0)
        return Middle(empty, empty, empty, empty, np.empty((0, 0)))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    redrawn = np.stack([iqm(values[rows], axis=0) for rows in drawn])
    low, high = np.quantile(redrawn, [0.025, 0.975], axis=0)
    return Middle(x[inside], iqm(values, axis=0), low, high, redrawn)


def first_reach(x: FloatArray, y: FloatArray, threshold: float) -> float:
    """The first x at which y is at least the threshold; inf if it never is."""
    above = np.flatnonzero(y >= threshold)
    return float(x[above[0]]) if len(above) else np.inf


def efficiency(
    groups: Sequence[Group], chosen: Selection, threshold: float | None
) -> list[Efficiency]:
    """A row for every group and task; none for scores without curves."""
    if chosen.metric == EVALUATION:
        return []
    rows: list[Efficiency] = []
    for task in sorted(chosen.ends):
        parts = {}
        known = [
            curves.curve(seed, chosen.metric, chosen.axis)
            for each in groups for seed in each.seeds if seed.task == task
        ]  # fmt: skip
        points = curves.grid(known)
        for each in groups:
            mine = [s for s in each.seeds if s.task == task]
            if mine:
                own = [curves.curve(seed, chosen.metric, chosen.axis) for seed in mine]
                parts[each.label] = own, middle(points, curves.align(own, points))
        levels = [part.iqm for _, part in parts.values() if len(part.iqm)]
        if not levels:
            continue
        worst, best = min(map(np.min, levels)), max(map(np.max, levels))
        if chosen.lower_is_better:
            worst, best = best, worst
        level = worst + _SHARE_OF_WAY * (best - worst) if threshold is None else threshold
        sign = -1 if chosen.lower_is_better else 1
        rows += [_row(label, task, level, sign, *part) for label, part in parts.items()]
    return rows


def _row(
    label: str,
    task: str,
    threshold: float,
    sign: int,
    own: list[tuple[FloatArray, FloatArray]],
    part: Middle,
) -> Efficiency:
    level = sign * threshold
    at = first_reach(part.x, sign * part.iqm, level)
    redrawn = np.array([first_reach(part.x, sign * each, level) for each in part.resampled])
    # `interpolate` would make a number between a step and never.
    low, high = (
        np.quantile(redrawn, [0.025, 0.975], method="nearest") if len(redrawn) else (np.inf, np.inf)
    )
    return Efficiency(
        label, task, float(threshold), _or_none(at), (_or_none(low), _or_none(high)),
        len(own), sum(bool(np.any(sign * y >= level)) for _, y in own), part,
    )  # fmt: skip


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
