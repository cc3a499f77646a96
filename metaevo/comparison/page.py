"""The table of a comparison, and one page with the table and Plotly's figures."""

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from itertools import cycle
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from metaevo.comparison.analysis import COMPARED, RunComparison
from metaevo.comparison.curves import is_held_out
from metaevo.comparison.seed_run import AXES, direction
from metaevo.config import files
from metaevo.reports import page as report
from metaevo.reports import plots
from metaevo.reports.numbers import MISSING, counted, estimate
from metaevo.reports.page import Table
from metaevo.statistics import Estimate

_COLORS = plots.BLUE, plots.LEARNED, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.SKY
_COLUMNS = 2
"""Panels side by side."""
_PANEL, _ROW = 400, 34
"""Heights in pixels: of a panel with curves, and of a group in the plots of scores."""
_LEGEND = 22
"""Height in pixels of a line of the legend."""
_GREY = "#7d838c"
"""Of texts, readable on a light and on a dark page."""
_GRID = "rgba(125, 131, 140, 0.25)"


def quantity(result: RunComparison) -> str:
    """Describe the compared score, such as "mean return, mean of the last tenth of a run"."""
    scale = ", scaled on each task from 0 to 1" if len(result.tasks) > 1 else ""
    if is_held_out(result.metric):
        variant = result.metric.partition(":")[2]
        return f"held-out scores{f' ({variant})' if variant else ''}{scale}"
    name = result.metric.replace("_", " ") if result.metric == "mean_return" else result.metric
    how = {
        "final": "mean of the last tenth of a run",
        "area": "mean over a whole run (area under the curve)",
        "best": f"{'lowest' if direction(result.metric) == 'lower' else 'highest'} point of a run",
    }
    return f"{name}, {how[result.score]}{scale}"


# --- Table --------------------------------------------------------------------------------------

_FORMATS: dict[str, Callable[..., str]] = {
    "difference": partial(estimate, sign=True),
    "probability_of_improvement": partial(estimate, decimals=2),
    "p": lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}",
}
"""Formats of columns; others have the default."""
_NAMES = {"iqm": "IQM", "probability_of_improvement": "P(better)"}


def table(result: RunComparison) -> Table:
    """Return the table of groups, best first."""
    rows = result.rows()
    columns = list(rows[0])
    if len(rows) == 1:
        columns = [name for name in columns if name not in COMPARED]
    cells = [[_cell(name, row[name]) for name in columns] for row in rows]
    note = (
        "IQM: mean of the middle half of the seeds. Intervals: 95%, stratified bootstrap. "
        "Difference: from the baseline. P(better): probability that a seed is better than a seed "
        "of the baseline. p: rank test, adjusted by Holm's method for all groups."
    )
    names = [_NAMES.get(name, name) for name in columns]
    marked = [at for at, row in enumerate(rows) if row["verdict"] == "baseline"]
    return Table(quantity(result), names, cells, note, highlight=marked if len(rows) > 1 else [])


def _cell(name: str, value: object) -> object:
    if value is None:
        return MISSING
    if isinstance(value, Estimate):
        return _FORMATS.get(name, estimate)(value.value, *value.interval)
    return _FORMATS[name](value) if name in _FORMATS else value


def terminal(result: RunComparison) -> str:
    """Return the table and the notes as text, without control characters."""
    parts = [table(result).text(), "\n".join(f"note: {note}" for note in result.notes)]
    text = "\n\n".join(part for part in parts if part)
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


# --- Figures ------------------------------------------------------------------------------------


def colors(result: RunComparison) -> dict[str, str]:
    """Return the color of each group."""
    return dict(zip([each.label for each in result.groups], cycle(_COLORS), strict=False))


def draw_curves(result: RunComparison) -> go.Figure:
    """Draw the middle curve of every group with its interval, with a panel for each task."""
    tasks, color, named = result.tasks, colors(result), set()
    columns = min(_COLUMNS, len(tasks))
    height = -(-len(tasks) // columns)
    titles = [_text(task) for task in tasks] if len(tasks) > 1 else None
    figure = make_subplots(height, columns, subplot_titles=titles)
    for at, task in enumerate(tasks):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        middles = result.middles(task)
        for label in (label for label in color if label in middles and len(middles[label].x)):
            part = middles[label]
            common = {"legendgroup": label, "name": _text(label), **place}
            figure.add_scatter(
                x=[*part.x, *part.x[::-1]], y=[*part.low, *part.high[::-1]], fill="toself",
                fillcolor=color[label], opacity=0.18, line={"width": 0}, mode="lines",
                hoverinfo="skip", showlegend=False, **common,
            )  # fmt: skip
            figure.add_scatter(
                x=part.x, y=part.iqm, mode="markers" if len(part.x) == 1 else "lines",
                line={"color": color[label], "width": 2.5}, showlegend=label not in named,
                **common,
            )  # fmt: skip
            named.add(label)
    figure.update_yaxes(title_text=_text(result.metric.replace("_", " ")), col=1)
    figure.update_xaxes(title_text=AXES[result.axis], row=height)
    legend = _LEGEND * len(named)
    _style(figure, _PANEL * height + legend)
    figure.update_layout(legend={"y": 0, "yref": "container", "yanchor": "bottom", "x": 0})
    figure.update_layout(margin_b=60 + legend)
    return figure


def draw_scores(result: RunComparison) -> go.Figure:
    """Draw the score of every group, and its difference from the baseline, with intervals."""
    rows = result.rows()
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
                marker={"size": 10, "color": colors(result)[row["group"]]}, row=1, col=column,
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
    clear = "rgba(0, 0, 0, 0)"
    figure.update_layout(
        height=height, font={"color": _GREY, "family": "system-ui, sans-serif"},
        paper_bgcolor=clear, plot_bgcolor=clear, margin={"l": 60, "r": 20, "t": 60, "b": 50},
        modebar={"bgcolor": clear, "color": _GREY, "activecolor": _GREY},
    )  # fmt: skip
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(gridcolor=_GRID, zeroline=False, automargin=True)


# --- Page ---------------------------------------------------------------------------------------


def _html(figures: Mapping[str, go.Figure]) -> list[report.Html]:
    """Return figures under headings; the first one brings Plotly's program along."""
    config = {
        "displaylogo": False,
        "modeBarButtons": [["toImage", "resetScale2d"]],
        "responsive": True,
    }
    return [
        report.Html(heading, figure.to_html(config, include_plotlyjs=not at, full_html=False))
        for at, (heading, figure) in enumerate(figures.items())
    ]


def save(result: RunComparison, path: Path) -> Path:
    """Write the page, one file that needs no network; return its path.

    Raises:
        ConfigError: if the file cannot be written.
    """
    figures = {} if is_held_out(result.metric) else {"Curves": draw_curves(result)}
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
