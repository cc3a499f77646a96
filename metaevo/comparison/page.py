"""The table of a comparison, and one page with the table and Plotly's figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import cycle
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from metaevo.comparison.analysis import RunComparison
from metaevo.comparison.curves import is_held_out
from metaevo.config import files
from metaevo.intervals import Estimate
from metaevo.reports import page as report
from metaevo.reports import plots
from metaevo.reports.page import MISSING, Table, counted, estimate

_COLORS = plots.BLUE, plots.LEARNED, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY
_CURVES, _ROW, _LEGEND = 400, 34, 22
"""Heights in pixels: of a plot of curves, of a group in the plots of scores and in the legend."""
_GREY, _GRID, _CLEAR = "#7d838c", "rgba(125, 131, 140, 0.25)", "rgba(0, 0, 0, 0)"
"""Colors that are readable on a light and on a dark page."""
_NOTE = (
    "IQM: mean of the middle half of the seeds. Intervals: 95%, stratified bootstrap. Difference: "
    "from the baseline. P(better): probability that a seed is better than a seed of the baseline. "
    "p: rank test, adjusted by Holm's method for all groups."
)
_NAMES = {"iqm": "IQM", "probability_of_improvement": "P(better)"}


# --- Table --------------------------------------------------------------------------------------


def table(result: RunComparison) -> Table:
    """Return the table of groups, best first."""
    what = "mean of the last tenth of a run" if result.score == "final" else "mean over a whole run"
    if is_held_out(result.metric):
        what = "held-out scores"
    if len(result.tasks) > 1:
        what += ", scaled on each task from 0 to 1"
    rows = result.rows()
    columns = [name for name in rows[0] if len(rows) > 1 or rows[0][name] not in (None, "baseline")]
    cells = [[_cell(name, row[name]) for name in columns] for row in rows]
    marked = [at for at, row in enumerate(rows) if len(rows) > 1 and row["verdict"] == "baseline"]
    names = [_NAMES.get(name, name) for name in columns]
    heading = f"{result.metric.replace('_', ' ')}: {what}"
    return Table(heading, names, cells, _NOTE, highlight=marked)


def _cell(name: str, value: object) -> object:
    if isinstance(value, Estimate):
        decimals = 2 if name == "probability_of_improvement" else None
        return estimate(value.value, *value.interval, sign=name == "difference", decimals=decimals)
    if value is None:
        return MISSING
    if name == "p" and isinstance(value, float):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    return value


def terminal(result: RunComparison) -> str:
    """Return the table and the notes as text, without control characters."""
    parts = [table(result).text(), "\n".join(f"note: {note}" for note in result.notes)]
    text = "\n\n".join(part for part in parts if part)
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


# --- Figures ------------------------------------------------------------------------------------


def _colors(result: RunComparison) -> dict[str, str]:
    return dict(zip([each.label for each in result.groups], cycle(_COLORS), strict=False))


def draw_curves(result: RunComparison, task: str) -> go.Figure:
    """Draw the mean curve of every group on a task, with its 95% interval."""
    figure, colors = go.Figure(), _colors(result)
    middles = {label: part for label, part in result.middles(task).items() if len(part.x)}
    for label, part in middles.items():
        common = {"legendgroup": label, "name": _text(label)}
        figure.add_scatter(
            x=[*part.x, *part.x[::-1]], y=[*part.low, *part.high[::-1]], fill="toself",
            fillcolor=colors[label], opacity=0.18, line={"width": 0}, mode="lines",
            hoverinfo="skip", showlegend=False, **common,
        )  # fmt: skip
        figure.add_scatter(
            x=part.x, y=part.mean, mode="markers" if len(part.x) == 1 else "lines",
            line={"color": colors[label], "width": 2.5}, showlegend=True, **common,
        )  # fmt: skip
    figure.update_yaxes(title_text=_text(result.metric.replace("_", " ")))
    figure.update_xaxes(title_text=result.axis)
    _style(figure, _CURVES + _LEGEND * len(middles))
    figure.update_layout(
        legend={"y": 0, "yref": "container", "yanchor": "bottom", "x": 0},
        margin_b=60 + _LEGEND * len(middles),
    )
    return figure


def draw_scores(result: RunComparison) -> go.Figure:
    """Draw the score of every group, and its difference from the baseline, with intervals."""
    rows, colors = result.rows(), _colors(result)
    compared = any(row["difference"] for row in rows)
    titles = ["score", f"difference from {_text(result.baseline)}"][: 1 + compared]
    figure = make_subplots(1, len(titles), shared_yaxes=True, subplot_titles=titles)
    for row in reversed(rows):  # the first one on top
        for column, name in enumerate(("iqm", "difference"), start=1):
            if row[name] is None:
                continue
            value, (low, high) = row[name]
            figure.add_scatter(
                x=[value], y=[_text(row["group"])], mode="markers", showlegend=False,
                marker={"size": 10, "color": colors[row["group"]]}, row=1, col=column,
                error_x={"array": [high - value], "arrayminus": [value - low],
                         "symmetric": False, "thickness": 3, "width": 0},
            )  # fmt: skip
    if compared:
        figure.add_vline(x=0, line={"color": _GREY, "dash": "dot"}, row=1, col=2)
    labels = [_text(each.label) for each in reversed(result.groups)]
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    _style(figure, 150 + _ROW * len(labels))
    return figure


def _text(label: str) -> str:
    """Escape a name, because Plotly reads some tags in texts."""
    return escape(label, quote=False)


def _style(figure: go.Figure, height: float) -> None:
    figure.update_layout(
        height=height, font={"color": _GREY, "family": "system-ui, sans-serif"},
        paper_bgcolor=_CLEAR, plot_bgcolor=_CLEAR, margin={"l": 60, "r": 20, "t": 60, "b": 50},
        modebar={"bgcolor": _CLEAR, "color": _GREY, "activecolor": _GREY},
    )  # fmt: skip
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(gridcolor=_GRID, zeroline=False, automargin=True)


# --- Page ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Html:
    """A section of markup under a heading, which is not escaped."""

    heading: str
    markup: str
    kind = ""


def _html(figures: Mapping[str, go.Figure]) -> list[Html]:
    """Return figures under headings; the first one brings Plotly's program along."""
    config = {
        "displaylogo": False,
        "modeBarButtons": [["toImage", "resetScale2d"]],
        "responsive": True,
    }
    return [
        Html(heading, figure.to_html(config, include_plotlyjs=not at, full_html=False))
        for at, (heading, figure) in enumerate(figures.items())
    ]


def save(result: RunComparison, path: Path) -> Path:
    """Write the page, one file that needs no network; return its path.

    Raises:
        ConfigError: if the file cannot be written.
    """
    figures = {}
    if not is_held_out(result.metric):
        figures = {f"Curves {task}": draw_curves(result, task) for task in result.tasks}
    figures["Groups"] = draw_scores(result)
    sections: list[report.Section] = [table(result), *_html(figures)]
    if result.notes:
        sections.append(report.Text("Notes", result.notes))
    seeds = counted(sum(len(each.curves) for each in result.groups), "seed")
    subtitle = f"{counted(len(result.groups), 'group')}, {seeds}"
    try:
        return report.write_report(path, "Comparison of runs", subtitle, sections)
    except OSError as error:
        raise files.unwritable(path, error) from None
