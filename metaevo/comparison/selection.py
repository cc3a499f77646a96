"""One metric of the recorded runs: the scores of its curves, and groups of seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from metaevo.comparison.recorded import AXES, EVALUATION, MEAN, Curve, RecordedRun
from metaevo.config import ConfigError, of_value
from metaevo.config.documentation import short_names
from metaevo.statistics import FloatArray

Score = Literal["final", "area"]
FINAL_FRACTION = 0.1
POINTS = 120
"""maximum number of points of a drawn curve"""
ABSENT = "(not set)"
Values = tuple[str, ...]
"""Values of the settings that form the groups."""


def select(
    runs: Sequence[RecordedRun], metric: str | None, how: Score, notes: list[str]
) -> tuple[str, list[Curve]]:
    """Return the metric and its scored curves, and append to the notes.

    Curves on a task are scored at the last point that all have reached.

    Raises:
        ConfigError: a run lacks the metric, the axes differ, or no run has any records yet.
    """
    if not runs:
        raise ConfigError("no run has recorded anything to compare yet")
    metric = metric or _default_metric(runs, notes)
    for run in runs:
        if metric not in run.metrics:
            known = ", ".join(run.metrics)
            raise ConfigError(f"{run.name}: has no metric {metric!r}; it has: {known}")
    curves = [curve for run in runs for curve in run.curves(metric)]
    if metric.partition(":")[0] == EVALUATION:
        return metric, curves
    axes = {AXES[run.axis]: run.name for run in runs}
    if len(axes) > 1:
        shown = ", ".join(f"{axis} ({name})" for axis, name in axes.items())
        raise ConfigError(f"{metric} is recorded over different axes: {shown}")
    for run in runs:
        if run.agents > 1 and len(run.curves(metric)) == 1:
            note = (
                f"{run.name}: has only the mean of its agents' {metric}, which counts as one seed"
            )
            lost = f"{run.diverged} of {run.agents} agents diverged, so it counts as missing"
            is_lost = run.diverged and metric != MEAN
            notes.append(f"{note}; {lost}" if is_lost else note)
    ends = _common_ends(runs, notes)
    return metric, [
        replace(curve, score=score(curve.x, curve.y, ends[curve.run.task], how)) for curve in curves
    ]


def _default_metric(runs: Sequence[RecordedRun], notes: list[str]) -> str:
    """Return the common default metric; held-out scores if all runs are evolutions that have them.

    Raises:
        ConfigError: the runs have different ones.
    """
    judged = [run for run in runs if EVALUATION in run.scores]
    if len(judged) == len(runs):
        notes.append(
            "an evolution is one seed, with the held-out score of its report: fewer than 4 "
            "evolutions on each side decide nothing (--metric fitness_of_mean shows the curves)"
        )
        return EVALUATION
    if judged:
        notes.append("held-out scores are not used, because not all runs have them")
    defaults = {run.default: run.name for run in runs if run.default}
    if len(defaults) != 1:
        shown = ", ".join(f"{name} ({run})" for name, run in defaults.items())
        raise ConfigError(f"the runs have no common metric by default; choose --metric: {shown}")
    return next(iter(defaults))


def _common_ends(runs: Sequence[RecordedRun], notes: list[str]) -> dict[str, float]:
    """Return the last position that all runs on a task have reached."""
    reaches: dict[str, list[float]] = {}
    for run in runs:
        reaches.setdefault(run.task, []).append(float(np.nanmax(run.x)))
    for task, reach in reaches.items():
        if max(reach) > min(reach) * 1.001:
            end = f"{min(reach):,.6g} {AXES[runs[0].axis]}"
            notes.append(
                f"runs{f' on {task}' if task else ''} differ in length: all are scored at {end}, "
                f"which all have reached (the longest run has {max(reach):,.6g})"
            )
    return {task: min(reach) for task, reach in reaches.items()}


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


def aligned(curves: Sequence[Curve]) -> tuple[FloatArray, FloatArray]:
    """Return points where all seeds have values, and curves [seeds, points], linearly between.

    The points are all recorded ones or, of more than `POINTS`, equally spaced ones. Seeds without
    any value are ignored.
    """
    known = [curve for curve in curves if len(curve.x)]
    points = np.unique(np.concatenate([curve.x for curve in curves]))
    for curve in known:
        points = points[(points >= curve.x[0]) & (points <= curve.x[-1])]
    if len(points) > POINTS:
        points = np.linspace(points[0], points[-1], POINTS)
    return points, np.array([np.interp(points, each.x, each.y) for each in known])


# --- Groups -------------------------------------------------------------------------------------


def group(
    curves: Sequence[Curve], by: Sequence[str] | None, notes: list[str]
) -> dict[str, list[Curve]]:
    """Return the groups by label: seeds with equal values of the keys, or of all settings.

    The groups are in the order of their first curves. Of settings that change together only one is
    in the labels, and a note lists the others.

    Raises:
        ConfigError: no run has such a key; the message suggests similar ones.
    """
    runs = list(dict.fromkeys(curve.run for curve in curves))
    keys = _differing(runs) if by is None else [_known_key(key, runs) for key in by]
    groups: dict[Values, list[Curve]] = {}
    for curve in curves:
        values = tuple(_value(curve.run, key) for key in keys)
        groups.setdefault(values, []).append(curve)
    if not keys:
        return {runs[0].name if len(runs) == 1 else "all": list(curves)}
    shown = _sufficient(list(groups), keys) if by is None else list(range(len(keys)))
    if others := [key for at, key in enumerate(keys) if at not in shown]:
        notes.append(f"the groups differ in other settings, too: {', '.join(others)}")
    names = list(zip(short_names(keys[at] for at in shown).values(), shown, strict=True))
    return {
        ", ".join(f"{name}={values[at]}" for name, at in names): own
        for values, own in groups.items()
    }


def _differing(runs: Sequence[RecordedRun]) -> list[str]:
    keys = sorted({key for run in runs for key in run.settings})
    return [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]


def _sufficient(rows: Sequence[Values], keys: Sequence[str]) -> list[int]:
    """Return places of settings that distinguish all groups; common ones with short paths first."""

    def rank(at: int) -> tuple[bool, int]:
        return any(row[at] == ABSENT for row in rows), keys[at].count(".")

    def groups(places: Sequence[int]) -> int:
        return len({tuple(row[at] for at in places) for row in rows})

    chosen: list[int] = []
    for at in sorted(range(len(keys)), key=rank):
        if groups([*chosen, at]) > groups(chosen):
            chosen.append(at)
    return sorted(chosen)


def _known_key(key: str, runs: Sequence[RecordedRun]) -> str:
    """Return the full key of a setting, which may be given by its last part."""
    known = sorted({each for run in runs for each in run.config} | {"run"})
    found = [key] if key in known else [each for each in known if each.endswith(f".{key}")]
    if len(found) != 1:
        hint = of_value(key, [*known, *(each.rpartition(".")[2] for each in known)])
        shown = ", ".join((found or _differing(runs) or known)[:12])
        raise ConfigError(f"--group-by {key}: must be the name of one setting{hint}: {shown}")
    return found[0]


def _value(run: RecordedRun, key: str) -> str:
    if key == "run":
        return run.name
    return run.settings.get(key, str(run.config.get(key, ABSENT)))
