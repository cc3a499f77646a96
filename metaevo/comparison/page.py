"""The table of a comparison, and one page with the table and figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from metaevo.comparison.analysis import RunComparison
from metaevo.config import PlainMapping, files
from metaevo.reports import plots
from metaevo.reports.page import Image, Section, Table, Text, counted, estimate, write_report
from metaevo.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTE = (
    "IQM: mean of the middle half of the seeds. Intervals: 95%, stratified bootstrap. Difference: "
    "from the baseline. P(better): probability that a seed is better than a seed of the baseline. "
    "p: rank test, adjusted by Holm's method for all groups."
)
_NAMES = {"iqm": "IQM", "probability_of_improvement": "P(better)"}


def table(result: RunComparison) -> Table:
    """Return the table of groups, best first."""
    what = "mean of the last tenth of a run" if result.score == "final" else "mean over a whole run"
    if not result.axis:
        what = "held-out scores"
    if len(result.tasks) > 1:
        what += ", scaled on each task from 0 to 1"
    rows = result.rows()
    columns = [name for name in rows[0] if len(rows) > 1 or rows[0][name] not in (None, "baseline")]
    cells = [[_cell(row, name) for name in columns] for row in rows]
    marked = [at for at, row in enumerate(rows) if len(rows) > 1 and row["verdict"] == "baseline"]
    names = [_NAMES.get(name, name) for name in columns]
    heading = f"{result.metric.replace('_', ' ')}: {what}"
    return Table(heading, names, cells, _NOTE, highlight=marked)


def _cell(row: PlainMapping, name: str) -> object:
    value = row[name]
    if isinstance(value, Estimate):
        decimals = 2 if name == "probability_of_improvement" else None
        shown = estimate(value, sign=name == "difference", decimals=decimals)
        return shown.partition(" ")[0] if row["seeds"] == 1 else shown
    if name == "p" and isinstance(value, float):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    return value


def draw_curves(result: RunComparison) -> "Figure":
    """Draw the mean curve of every group on each task, with its 95% interval."""
    ylabel = result.metric.replace("_", " ")
    panels = [
        plots.Panel(result.curves_on(task), result.axis, ylabel, task) for task in result.tasks
    ]
    return plots.draw_panels(panels, columns=2, height=3.6)


def draw_scores(result: RunComparison) -> "Figure":
    """Draw the score of every group, and its difference from the baseline, with intervals."""
    rows = result.rows()
    labels = {"iqm": "score", "difference": f"difference from {result.baseline}"}
    shown = [name for name in labels if any(row[name] for row in rows)]
    figure = plots.new_figure(1.2 + 0.35 * len(rows), plots.WIDTH * len(shown))
    every = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, name in zip(every, shown, strict=True):
        plots.draw_intervals(axes, {row["group"]: row[name] for row in rows}, labels[name])
        if name == "difference":
            axes.axvline(0, color=plots.GREY, linestyle="dotted")
    return figure


def save(result: RunComparison, folder: Path) -> None:
    """Write the page, one file that embeds the figures, and print its text.

    Raises:
        ConfigError: if a file cannot be written.
    """
    path = folder / "index.html"
    seeds = counted(sum(len(each.curves) for each in result.groups), "seed")
    subtitle = f"{counted(len(result.groups), 'group')}, {seeds}"
    sections: list[Section] = [table(result)]
    try:
        if result.axis:
            curves = plots.save_figure(draw_curves(result), folder / "curves.png")
            sections.append(Image("Curves", curves))
        scores = plots.save_figure(draw_scores(result), folder / "scores.png")
        sections.append(Image("Groups", scores, kind="wide"))
        sections += [Text("", [f"Note: {note}."]) for note in result.notes]
        write_report(path, "Comparison of runs", subtitle, sections)
    except OSError as error:
        raise files.unusable(path, error) from None
