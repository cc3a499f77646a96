"""The table and the figure of a judgement."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from metaevo.judging.resampling import Curve
from metaevo.reports.numbers import estimate, number
from metaevo.statistics.intervals import Estimate


class Row(NamedTuple):
    """A contender."""

    score: Estimate
    curve: Curve
    winner: str
    """its tuned setting; "" if there are several tasks, or no tuning"""


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


def plot(rows: Mapping[str, Row], path: Path) -> Path:
    """Draw a curve of expected scores for each contender, with the interval at its end."""
    from metaevo.reports import plots  # matplotlib takes a second

    figure = plots.new_figure(3.6, plots.NARROW)
    axes = figure.subplots()
    for index, (name, (score, curve, _)) in enumerate(rows.items()):
        start = min(1, len(curve.settings) - 1)  # the untuned setting may be far below
        points = curve.settings[start:], curve.scores[start:]
        (line,) = axes.plot(*points, marker="o", markersize=3, label=name)
        end = curve.settings[-1] * (1 + 0.02 * index)  # intervals side by side
        low, high = score.interval
        reach = [[max(0.0, score.value - low)], [max(0.0, high - score.value)]]
        axes.errorbar(end, score.value, reach, color=line.get_color())
    plots.style_axes(axes, "settings tried", "score")
    axes.legend()
    return plots.save_figure(figure, path)
