"""What the page needs to draw every grouping along every axis: plain data, computed here.

The browser only draws: the curves, their middle and their bands are the same numbers as those of
the tables.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.analysis import Analysis
from metaevo.comparison.compare_runs.directions import EVALUATION
from metaevo.comparison.compare_runs.efficiency import middle
from metaevo.comparison.compare_runs.grouping import differing, group, known_key
from metaevo.comparison.compare_runs.seed_run import AXES, FloatArray, SeedRun
from metaevo.comparison.compare_runs.words import what

_MOST_GROUPINGS = 10
_MOST_GROUPS = 60
"""A grouping with more of them is a list of runs: single curves show that better."""
_RESAMPLES = 200
SETTINGS, RUN = "all settings that differ", "run"


def views(analysis: Analysis) -> dict[str, Any]:
    """The data of the page.

    `seeds`: run, seed, task, score. `groupings`: by name, labels and the seeds of each label.
    `axes`: by axis and task, the points, every seed's curve and, by grouping, every group's middle.
    """
    seeds = [seed for each in analysis.groups for seed in each.group.seeds]
    scores = {
        id(seed): float(value)
        for each in analysis.groups
        for task, values in each.scores.items()
        for seed, value in zip(
            [seed for seed in each.group.seeds if seed.task == task], values, strict=True
        )
    }
    groupings = _groupings(analysis, seeds)
    has_curves = analysis.selection.metric != EVALUATION
    axes = [axis for axis in AXES if has_curves and all(axis in seed.axes for seed in seeds)]
    return {
        "what": what(analysis),
        "metric": analysis.selection.metric.replace("_", " "),
        "seeds": [
            {
                "name": f"{seed.run} seed {seed.seed}",
                "task": seed.task,
                "score": _rounded(scores[id(seed)]),
            }
            for seed in seeds
        ],
        "tasks": sorted({seed.task for seed in seeds}),
        "groupings": groupings,
        "axes": {axis: _axis(analysis, seeds, groupings, axis) for axis in axes},
        "axisNames": AXES,
        "axis": analysis.selection.axis,
        "smoothing": curves.SMOOTHING,
    }


def _groupings(analysis: Analysis, seeds: Sequence[SeedRun]) -> list[dict[str, Any]]:
    """The ways to group, that of the tables first."""
    own = [known_key(key, seeds) for key in analysis.options.group_by or ()]
    found = {", ".join(own) or SETTINGS: [each.group for each in analysis.groups]}
    if own:
        found.setdefault(SETTINGS, group(seeds))
    for key in list(differing(seeds))[:_MOST_GROUPINGS]:
        found.setdefault(key, group(seeds, [key]))
    if len({seed.run for seed in seeds}) > 1:
        found.setdefault(RUN, group(seeds, [RUN]))
    number = {id(seed): index for index, seed in enumerate(seeds)}
    return [
        {
            "name": name,
            "labels": [each.label for each in groups],
            "members": [[number[id(seed)] for seed in each.seeds] for each in groups],
        }
        for name, groups in found.items()
    ]


def _axis(
    analysis: Analysis,
    seeds: Sequence[SeedRun],
    groupings: Sequence[dict[str, Any]],
    axis: str,
) -> dict[str, Any]:
    result = {}
    for task in sorted({seed.task for seed in seeds}):
        mine = [index for index, seed in enumerate(seeds) if seed.task == task]
        raw = [curves.curve(seeds[index], analysis.selection.metric, axis) for index in mine]
        points = curves.grid(raw)
        aligned = curves.align(raw, points)
        row = {index: aligned[at] for at, index in enumerate(mine)}
        result[task] = {
            "x": _list(points),
            "curves": {str(index): _list(values) for index, values in row.items()},
            "middles": [_middles(each, row, points) for each in groupings],
        }
    return result


def _middles(
    grouping: dict[str, Any], row: dict[int, FloatArray], points: FloatArray
) -> list[dict[str, Any] | None]:
    """Of every group of a grouping; None without seeds on this task."""
    if len(grouping["labels"]) > _MOST_GROUPS:
        return []
    found: list[dict[str, Any] | None] = []
    for members in grouping["members"]:
        aligned = [row[index] for index in members if index in row]
        if not aligned:
            found.append(None)
            continue
        part = middle(points, np.stack(aligned), resamples=_RESAMPLES)
        found.append(
            {
                "x": _list(part.x),
                "y": _list(part.iqm),
                "low": _list(part.low),
                "high": _list(part.high),
            }
        )
    return found


def _list(values: FloatArray) -> list[float | None]:
    return [_rounded(value) for value in values.tolist()]


def _rounded(value: float) -> float | None:
    """Six digits are more than a screen shows, and JSON has no NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
