"""The PNG figures of a comparison: curves and scores. The page shows more and is interactive."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter

from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.analysis import RunComparison
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.comparison.compare_runs.words import compared_quantity
from metaevo.reports import plots

COLORS = (plots.BLUE, plots.LEARNED, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY)
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 2)), (0, (1.2, 1.2)), (0, (7, 2, 1.2, 2)))
_MOST_GROUPS, _MOST_TASKS = 12, 12
"""More lines or panels are hard to distinguish; the page shows all."""


def draw(result: RunComparison, folder: Path) -> list[Path]:
    """Draw curves, if there are any, and scores; return the files."""
    styles = {
        each.label: {
            "color": COLORS[at % len(COLORS)],
            "linestyle": _DASHES[at // len(COLORS)],
        }
        for at, each in enumerate(result.groups[:_MOST_GROUPS])
    }
    paths = [_scores(result, styles, folder / "scores.png")]
    if result.efficiency:
        paths.insert(0, _curves(result, styles, folder / "curves.png"))
    return paths


def _curves(result: RunComparison, styles: dict[str, dict[str, Any]], path: Path) -> Path:
    """Draw the middle of each group with its band, a panel for every task."""
    tasks = list(dict.fromkeys(row.task for row in result.efficiency))[:_MOST_TASKS]
    rows = -(-len(tasks) // 2)
    figure = plots._figure(1.2 + 3.6 * rows)
    panels = figure.subplots(rows, min(2, len(tasks)), squeeze=False).ravel()
    names = AXES[result.selection.axis], result.selection.metric.replace("_", " ")
    for axes, task in zip(panels, tasks, strict=False):
        plots._style(axes, *names)
        if len(tasks) > 1:
            axes.set_title(plots._plain(task), fontsize=11, wrap=True)
        for row in result.efficiency:
            if row.task != task or row.label not in styles or not len(row.middle.x):
                continue
            part, style = row.middle, styles[row.label]
            low, middle, high = map(curves.smooth, (part.low, part.iqm, part.high))
            axes.fill_between(part.x, low, high, color=style["color"], alpha=0.18, linewidth=0)
            marker = "o" if len(part.x) == 1 else ""
            axes.plot(part.x, middle, marker=marker, linewidth=2, label=row.label, **style)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in panels[len(tasks) :]:
        axes.set_visible(False)
    plots._legend(figure, *panels[: len(tasks)], letters=10)
    return plots._save(figure, path)


def _scores(result: RunComparison, styles: dict[str, dict[str, Any]], path: Path) -> Path:
    """Draw the IQM of each group with its interval, and its single seeds."""
    order = result.groups[: 2 * _MOST_GROUPS]
    figure = plots._figure(1.4 + 0.42 * len(order))
    axes = plots._style(figure.subplots(), compared_quantity(result), "", grid="x")
    for at, each in enumerate(order):
        color = styles.get(each.label, {"color": plots.GREY})["color"]
        scores = np.concatenate(list(each.scored.strata.values()))
        axes.plot(scores, np.full(len(scores), at + 0.22), "|", color=color, alpha=0.6)
        axes.plot(each.iqm.interval, [at, at], color=color, linewidth=3, solid_capstyle="round")
        axes.plot(each.iqm.value, at, "o", color=color, markersize=8)
    axes.set_yticks(range(len(order)), [plots._plain(each.label) for each in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.margins(x=0.05)
    axes.tick_params(axis="y", length=0)
    return plots._save(figure, path)
