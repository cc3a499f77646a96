"""The figures of a judgement."""

from pathlib import Path
from typing import TYPE_CHECKING

from metaevo.reports import plots
from metaevo.reports.page import estimate

if TYPE_CHECKING:
    from metaevo.judging.scores import Scores


def plot_scores(scores: "Scores", path: Path, task: str | None) -> Path:
    """Draw the score of each contender with its interval, and expected scores for fewer settings.

    Args:
        scores: the judgement.
        path: of the PNG.
        task: one of the tasks; None for all of them.
    """
    names, label = scores.contenders, "score"
    if scores.scale is not None and task is None:
        label = "scaled score"
    styles = plots.line_styles(names)
    heights = [0.9 + 0.35 * len(names), *[2.8] * bool(scores.tried)]
    figure = plots.new_figure(sum(heights))
    above, *below = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    for at, name in enumerate(names):
        value, (low, high) = scores.iqm(name, task)
        color = styles[name]["color"]
        above.plot([low, high], [at, at], color=color, linewidth=3, solid_capstyle="round")
        above.plot(value, at, "o", color=color, markersize=8)
        place = above.get_yaxis_transform()
        text = estimate(value, low, high)
        above.text(1.03, at, text, va="center", fontsize=9.5, color=plots.INK, transform=place)
    above.set_yticks(range(len(names)), [plots.plain_text(name) for name in names])
    above.set_ylim(len(names) - 0.4, -0.6)
    plots.style_axes(above, label, "", grid="x").margins(x=0.05)
    for axes in below:
        for name in names:
            settings, expected = scores.expected(name, task)
            start = min(1, len(settings) - 1)  # the untuned setting may be far below
            style = {"marker": "o", "markersize": 3, "label": name, **styles[name]}
            axes.plot(settings[start:], expected[start:], **style)
        plots.style_axes(axes, "settings tried", f"expected {label}")
    plots.add_legend(figure, *below)
    return plots.save_figure(figure, path)


def plot_curves(scores: "Scores", path: Path) -> Path:
    """Draw the learning curves of the winners: mean returns against environment steps, by task."""
    assert scores.curves is not None
    assert scores.steps is not None
    panels = []
    for place, (task, steps) in enumerate(zip(scores.tasks, scores.steps, strict=True)):
        curves = {
            name: (steps, scores.curves[member, place, scores.winners[member, place]])
            for member, name in enumerate(scores.contenders)
        }
        title = task if len(scores.tasks) > 1 else ""
        panels.append(plots.Panel(curves, "environment steps", "mean return", title))
    return plots.plot_panels(panels, path, columns=min(2, len(panels)), height=3.2)
