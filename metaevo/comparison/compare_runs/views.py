"""The data of the page: every grouping along every axis, computed here so that the page only draws.

The curves, their middles and their bands are the numbers of the tables.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.analysis import RunComparison
from metaevo.comparison.compare_runs.directions import EVALUATION
from metaevo.comparison.compare_runs.efficiency import middle
from metaevo.comparison.compare_runs.grouping import Group, differing, group, known_key
from metaevo.comparison.compare_runs.seed_run import AXES, FloatArray, SeedRun
from metaevo.comparison.compare_runs.words import compared_quantity

_MOST_GROUPINGS = 10
_MOST_GROUPS = 60
"""Larger groupings are lists of runs, which single curves show better."""
_RESAMPLES = 200
SETTINGS, RUN = "all settings that differ", "run"


def views(result: RunComparison) -> dict[str, Any]:
    """Return the data of the page.

    `seeds`: name, task, score. `groupings`: by name, labels and the seeds of each label. `axes`: by
    axis and task, the points, every seed's curve and, by grouping, every group's middle.
    """
    scored = [each for group_ in result.groups for each in group_.scored.by_seed()]
    seeds = [seed for _, seed, _ in scored]
    number = {id(seed): index for index, seed in enumerate(seeds)}
    groupings = {
        name: [(each.label, [number[id(seed)] for seed in each.seeds]) for each in groups]
        for name, groups in _groupings(result, seeds).items()
    }
    has_curves = result.selection.metric != EVALUATION
    axes = [axis for axis in AXES if has_curves and all(axis in seed.axes for seed in seeds)]
    tasks = sorted({seed.task for seed in seeds})
    return {
        "what": compared_quantity(result, scaled=False),
        "metric": result.selection.metric.replace("_", " "),
        "seeds": [
            {"name": f"{seed.run} seed {seed.seed}", "task": task, "score": _rounded(score)}
            for task, seed, score in scored
        ],
        "tasks": tasks,
        "groupings": [
            {
                "name": name,
                "labels": [label for label, _ in found],
                "members": [m for _, m in found],
            }
            for name, found in groupings.items()
        ],
        "axes": {
            axis: {task: _curves(result, seeds, groupings, axis, task) for task in tasks}
            for axis in axes
        },
        "axisNames": AXES,
        "axis": result.selection.axis,
        "smoothing": curves.SMOOTHING,
    }


def _groupings(result: RunComparison, seeds: Sequence[SeedRun]) -> dict[str, list[Group]]:
    """Return the groupings, the one of the tables first."""
    own = [known_key(key, seeds) for key in result.options.group_by or ()]
    found = {", ".join(own) or SETTINGS: [each.scored.group for each in result.groups]}
    if own:
        found.setdefault(SETTINGS, group(seeds))
    for key in list(differing(seeds))[:_MOST_GROUPINGS]:
        found.setdefault(key, group(seeds, [key]))
    if len({seed.run for seed in seeds}) > 1:
        found.setdefault(RUN, group(seeds, [RUN]))
    return found


def _curves(
    result: RunComparison,
    seeds: Sequence[SeedRun],
    groupings: dict[str, list[tuple[str, list[int]]]],
    axis: str,
    task: str,
) -> dict[str, Any]:
    mine = [index for index, seed in enumerate(seeds) if seed.task == task]
    raw = [curves.curve(seeds[index], result.selection.metric, axis) for index in mine]
    points = curves.grid(raw)
    row = dict(zip(mine, curves.align(raw, points), strict=True))

    def of_group(members: list[int]) -> dict[str, Any] | None:
        aligned = [row[index] for index in members if index in row]
        if not aligned:
            return None
        part = middle(points, np.stack(aligned), resamples=_RESAMPLES)
        named = {"x": part.x, "y": part.iqm, "low": part.low, "high": part.high}
        return {name: _list(values) for name, values in named.items()}

    return {
        "x": _list(points),
        "curves": {str(index): _list(values) for index, values in row.items()},
        "middles": [
            [of_group(members) for _, members in found] if len(found) <= _MOST_GROUPS else []
            for found in groupings.values()
        ],
    }


def _list(values: FloatArray) -> list[float | None]:
    return [_rounded(value) for value in values.tolist()]


def _rounded(value: float) -> float | None:
    """Six digits are more than a screen shows, and JSON has no NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
