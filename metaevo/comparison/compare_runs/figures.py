"""The PNG figures of a comparison, in the look of `metaevo.reports.plots`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from metaevo import statistics
from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.analysis import Analysis
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.comparison.compare_runs.words import what
from metaevo.reports import plots

COLORS = (plots.BLUE, plots.LEARNED, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY)
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 2)), (0, (1.2, 1.2)), (0, (7, 2, 1.2, 2)))
_MOST_GROUPS = 12
"""Nobody can tell more lines than that apart; the page shows all."""
_MOST_TASKS = 12


def draw(analysis: Analysis, folder: Path) -> list[Path]:
    """Draw curves, intervals and performance profiles; returns the files."""
    paths = [
        _intervals(analysis, folder / "scores.png"),
        _profile(analysis, folder / "profile.png"),
    ]
    if analysis.efficiency:
        paths.insert(0, _curves(analysis, folder / "curves.png"))
    return paths


def _styles(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """A colour and a dash for every group that is drawn."""
    labels = [row.label for row in analysis.rows[:_MOST_GROUPS]]
    return {
        label: {"color": COLORS[i % len(COLORS)], "linestyle": _DASHES[i // len(COLORS)]}
        for i, label in zip(range(len(labels)), labels, strict=True)
    }


def _curves(analysis: Analysis, path: Path) -> Path:
    tasks = list(dict.fromkeys(row.task for row in analysis.efficiency))[:_MOST_TASKS]
    columns = 3 if len(tasks) > 4 else min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    figure: Figure = plots._figure(1.2 + (2.2 if columns == 3 else 3.6) * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    styles, titles = _styles(analysis), _titles(tasks)
    names = AXES[analysis.selection.axis], analysis.selection.metric.replace("_", " ")
    for at, (axes, task) in enumerate(zip(panels, tasks, strict=False)):
        lowest, leftmost = at + columns >= len(tasks), at % columns == 0
        plots._style(axes, names[0] if lowest else "", names[1] if leftmost else "")
        if len(tasks) > 1:
            axes.set_title(plots._plain(titles[task]), fontsize=11)
        for row in analysis.efficiency:
            if row.task != task or row.label not in styles or not len(row.middle.x):
                continue
            part, style = row.middle, styles[row.label]
            low, middle, high = map(curves.smooth, (part.low, part.iqm, part.high))
            axes.fill_between(part.x, low, high, color=style["color"], alpha=0.18, linewidth=0)
            marker = "o" if len(part.x) == 1 else ""
            axes.plot(part.x, middle, marker=marker, linewidth=2, label=f"{row.label}", **style)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in panels[len(tasks) :]:
        axes.set_visible(False)
    plots._legend(figure, *panels[: len(tasks)], letters=10)
    return plots._save(figure, path)


def _titles(tasks: Sequence[str]) -> dict[str, str]:
    """Every task's environment, and those of its parameters that tell it from the others."""
    parts = {task: re.split(r" (?=\w+=)", task) for task in tasks}
    titles = {}
    for task, (env, *params) in parts.items():
        shared = set.intersection(*(set(each) for each in parts.values() if each[0] == env))
        own = " ".join(param for param in params if param not in shared)
        titles[task] = f"{env}\n{own}" if own else env
    return titles


def _intervals(analysis: Analysis, path: Path) -> Path:
    """A dot and a bar a group, its single seeds behind."""
    order = analysis.rows[: 2 * _MOST_GROUPS]
    styles = _styles(analysis)
    figure = plots._figure(1.4 + 0.42 * len(order))
    axes = plots._style(figure.subplots(), what(analysis), "", grid="x")
    by_label = {each.label: each for each in analysis.groups}
    for at, row in enumerate(order):
        color = styles.get(row.label, {"color": plots.GREY})["color"]
        scores = np.concatenate(list(by_label[row.label].strata.values()))
        axes.plot(scores, np.full(len(scores), at + 0.22), "|", color=color, alpha=0.6)
        axes.plot(row.iqm.interval, [at, at], color=color, linewidth=3, solid_capstyle="round")
        axes.plot(row.iqm.value, at, "o", color=color, markersize=8)
    axes.set_yticks(range(len(order)), [plots._plain(row.label) for row in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.margins(x=0.05)
    axes.tick_params(axis="y", length=0)
    return plots._save(figure, path)


def _profile(analysis: Analysis, path: Path) -> Path:
    figure = plots._figure(4.6)
    axes = plots._style(figure.subplots(), f"score: {what(analysis)}", "share of seeds above it")
    every = np.concatenate([s for each in analysis.groups for s in each.strata.values()])
    levels = np.linspace(every.min(), every.max(), 101)
    styles = _styles(analysis)
    groups = [each for each in analysis.groups if each.label in styles]
    for each in groups:
        share, low, high = statistics.performance_profile(list(each.strata.values()), levels)
        style = styles[each.label]
        axes.fill_between(levels, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.plot(levels, share, linewidth=2, label=each.label, **style)
    axes.set_ylim(-0.02, 1.02)
    plots._legend(figure, axes, letters=10)
    return plots._save(figure, path)
