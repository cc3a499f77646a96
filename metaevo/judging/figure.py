"""The table and the figures of a judgement."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metaevo.judging.resampling import Curve
from metaevo.reports.numbers import estimate, number
from metaevo.statistics.intervals import Estimate

if TYPE_CHECKING:
    from metaevo.judging.scores import Scores


class Row(NamedTuple):
    """A contender."""

    score: Estimate
    curve: Curve
    winner: str
    """its tuned setting; "" if there are several tasks, or no tuning"""


def rows(scores: "Scores", task: str | None) -> dict[str, Row]:
    """Return all contenders, on a task or over all of them."""
    single = len(scores.tasks) == 1 or task is not None
    return {
        name: Row(
            scores.iqm(name, task),
            scores.expected(name, task),
            _setting(scores, name, scores.winner(name, task)) if single and scores.tried else "",
        )
        for name in scores.contenders
    }


def _setting(scores: "Scores", name: str, setting: int) -> str:
    """Return the values of a setting as text."""
    if not setting or scores.settings is None:
        return f"setting {setting}" if setting else "untuned"
    values = scores.settings[scores.contenders.index(name), setting]
    pairs = zip(scores.hyperparams, values, strict=True)
    return ", ".join(f"{key} {value:.3g}" for key, value in pairs if np.isfinite(value))


def table(rows: Mapping[str, Row]) -> str:
    """Return a Markdown table: contender, score, score for half of the settings, winner."""
    first = next(iter(rows.values()))
    head = ["contender", "score [95%]"]
    if first.curve.settings[-1]:
        head.append(f"half of {first.curve.settings[-1]:.0f} settings")
    if first.winner:
        head.append("winner")
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, (score, curve, winner) in rows.items():
        cells = [name, estimate(score.value, *score.interval), number(curve.half), winner]
        lines.append(cells[: len(head)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plot(rows: Mapping[str, Row], path: Path, xlabel: str = "score") -> Path:
    """Draw the score of each contender with its interval, and expected scores for fewer settings.

    Args:
        rows: contenders by name.
        path: of the PNG.
        xlabel: name of the score.
    """
    from metaevo.reports import plots  # matplotlib takes a second

    styles = plots.line_styles(rows)
    tuned = any(row.curve.settings[-1] > 0 for row in rows.values())
    heights = [0.9 + 0.35 * len(rows), *[2.8] * tuned]
    figure = plots.new_figure(sum(heights), plots.NARROW)
    above, *below = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    for at, (name, (score, _, _)) in enumerate(rows.items()):
        low, high = score.interval
        color = styles[name]["color"]
        above.plot([low, high], [at, at], color=color, linewidth=3, solid_capstyle="round")
        above.plot(score.value, at, "o", color=color, markersize=8)
        text = estimate(score.value, low, high)
        place = above.get_yaxis_transform()
        above.text(1.03, at, text, va="center", fontsize=9.5, color=plots.INK, transform=place)
    above.set_yticks(range(len(rows)), [plots.plain_text(name) for name in rows])
    above.set_ylim(len(rows) - 0.4, -0.6)
    plots.style_axes(above, xlabel, "", grid="x").margins(x=0.05)
    for axes in below:
        for name, (_, curve, _) in rows.items():
            start = min(1, len(curve.settings) - 1)  # the untuned setting may be far below
            points = curve.settings[start:], curve.scores[start:]
            axes.plot(*points, marker="o", markersize=3, label=plots.plain_text(name),
                      **styles[name])  # fmt: skip
        plots.style_axes(axes, "settings tried", f"expected {xlabel}")
    plots.add_legend(figure, *below)
    return plots.save_figure(figure, path)


def plot_curves(scores: "Scores", path: Path) -> Path:
    """Draw the learning curves of the winners: mean returns against environment steps, by task."""
    from metaevo.reports import plots

    assert scores.curves is not None
    assert scores.steps is not None
    figure, panels = plots.new_panels(len(scores.tasks), 3.2)
    styles = plots.line_styles(scores.contenders)
    for place, (task, axes) in enumerate(zip(scores.tasks, panels, strict=True)):
        for member, name in enumerate(scores.contenders):
            steps = scores.steps[place]
            curve = scores.curves[member, place, scores.finalist(member, place)]
            known = np.isfinite(steps) & np.isfinite(curve)
            axes.plot(steps[known], curve[known], label=name, **styles[name])
        title = f" on {task}" if len(scores.tasks) > 1 else ""
        plots.style_axes(axes, f"environment steps{title}", "mean return")
    plots.add_legend(figure, *panels)
    return plots.save_figure(figure, path)
