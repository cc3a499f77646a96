"""The curves of a comparison as a PNG, with one panel for each task."""

from pathlib import Path

from matplotlib.ticker import EngFormatter

from metaevo.comparison.compare_runs.results import RunComparison
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.reports import plots

_COLORS = (plots.BLUE, plots.LEARNED, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY)
_DASHES = ("solid", "dashed")
_MOST_TASKS = 12


def draw_curves(result: RunComparison, path: Path) -> Path:
    """Draw the middle curve of each of the first groups with its band; return the path."""
    styles = [(color, dash) for dash in _DASHES for color in _COLORS]
    shown = dict(zip([each.label for each in result.groups], styles, strict=False))
    tasks = list(dict.fromkeys(row.task for row in result.efficiency))[:_MOST_TASKS]
    figure, panels = plots.new_panels(len(tasks), 3.9)
    names = AXES[result.selection.axis], result.selection.metric.replace("_", " ")
    for axes, task in zip(panels, tasks, strict=True):
        plots.style_axes(axes, *names)
        if len(tasks) > 1:
            axes.set_title(plots.plain_text(task), fontsize=11, wrap=True)
        for row in result.efficiency:
            if row.task != task or row.group not in shown or not len(row.middle.x):
                continue
            part, (color, dash) = row.middle, shown[row.group]
            axes.fill_between(part.x, part.low, part.high, color=color, alpha=0.18, linewidth=0)
            marker = "o" if len(part.x) == 1 else ""
            axes.plot(part.x, part.iqm, color=color, linestyle=dash, marker=marker, linewidth=2,
                      label=row.group)  # fmt: skip
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    plots.add_legend(figure, *panels, letters=10)
    return plots.save_figure(figure, path)
