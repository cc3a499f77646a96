"""The interactive page: one file that needs no server and no network."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from metaevo.comparison.compare_runs.analysis import RunComparison
from metaevo.comparison.compare_runs.views import views
from metaevo.comparison.compare_runs.words import compared_quantity, conclusions, tables
from metaevo.reports import page as report
from metaevo.reports.numbers import column, counted

# The browser loads no other file, even if a name in the data or a later Plotly tries to.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; form-action 'none'; base-uri 'none'"
)
_BAR, _MOST_BARS = 38, 12
"""Height of a group in the drawing of intervals in pixels, and how many it has at most."""
_CSS = """
.controls { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; margin: 0 0 .6rem; }
.controls label { color: var(--soft); font-size: .9rem; max-width: 100%; }
.controls label[hidden] { display: none; }
.controls select { display: block; font: inherit; color: var(--ink); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: .3rem .5rem; max-width: 100%; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem 1.5rem; }
@media (min-width: 60rem) { .beside { grid-template-columns: minmax(0, 1fr) 11rem;
  align-items: center; } }
.intervals { overflow: visible; font-size: .8rem; }
.intervals text { fill: var(--ink); }
.intervals line { stroke: var(--accent); stroke-width: 3; stroke-linecap: round; }
.intervals circle { fill: var(--accent); }
.plot { width: 100%; min-height: 120px; }
.verdicts { margin: 0; padding-left: 1.2rem; }
.verdicts li { margin-bottom: .5rem; max-width: 52rem; overflow-wrap: anywhere; }
.wide table { font-size: .86rem; }
.wide th, .wide td { padding: .35rem .6rem; }
td:not(.number) { overflow-wrap: break-word; min-width: 7rem; max-width: 24rem; }
"""


@dataclass(frozen=True)
class _List:
    """Sentences, one below the other."""

    heading: str
    lines: Iterable[str]

    def html(self) -> str:
        items = "".join(f"<li>{escape(line)}</li>\n" for line in self.lines)
        return f'<h2>{escape(self.heading)}</h2>\n<ul class="verdicts">\n{items}</ul>\n'


@dataclass(frozen=True)
class _Groups:
    """The table of groups, with a drawing of its intervals."""

    table: report.Table
    result: RunComparison

    def html(self) -> str:
        rows = self.result.groups[:_MOST_BARS]
        edges = [edge for row in rows for edge in row.iqm.interval]
        low, high = min(edges), max(edges)
        scale = 100 / ((high - low) or 1.0)
        bars = []
        for at, row in enumerate(rows):
            (left, right), y = row.iqm.interval, 14 + _BAR * at
            left, middle, right = (scale * (each - low) for each in (left, row.iqm.value, right))
            bars.append(
                f'<text x="0%" y="{y}">{escape(row.label)}</text>'
                f'<svg x="2%" width="96%" overflow="visible"><line x1="{left:.2f}%" '
                f'x2="{right:.2f}%" y1="{y + 10}" y2="{y + 10}"/>'
                f'<circle cx="{middle:.2f}%" cy="{y + 10}" r="5"/></svg>'
            )
        bottom = 16 + _BAR * len(rows)
        first, last = column([low, high])
        axis = (
            f'<text x="0%" y="{bottom}">{escape(first)}</text>'
            f'<text x="100%" y="{bottom}" text-anchor="end">{escape(last)}</text>'
        )
        return (
            f'<div class="beside"><div>{self.table.html()}</div><figure><svg class="intervals" '
            f'role="img" aria-label="IQM and 95% interval of each group" width="100%" '
            f'height="{bottom + 6}">{"".join(bars)}{axis}</svg><figcaption>IQM and 95% interval.'
            "</figcaption></figure></div>\n"
        )


@dataclass(frozen=True)
class _Plots:
    """The interactive part: controls, plots, data and program."""

    data: dict[str, Any]

    def html(self) -> str:
        of_all = _controls({"grouping": "group by", "task": "task"})
        of_curves = _controls({"lines": "lines", "axis": "align by", "smoothing": "curves"})
        script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
        return (
            f'<h2>Plots</h2>\n{of_all}<div id="curves-part"><h2>Curves</h2>\n{of_curves}'
            '<div id="curves" class="plot"></div>\n'
            '<p class="note">Line: interquartile mean over seeds, as far as all seeds of a group '
            "have come; band: 95% bootstrap interval. Click a name to hide it, double-click to see "
            "it alone; drag to zoom, double-click the plot to reset.</p></div>\n"
            '<h2>Scores of single seeds</h2>\n<div id="scores" class="plot"></div>\n'
            '<h2>Performance profile</h2>\n<div id="profile" class="plot"></div>\n'
            '<p class="note">The share of seeds with more than this score. A curve above another '
            "one everywhere is better by any statistic.</p>\n"
            f'<script type="application/json" id="comparison-data">{embedded(self.data)}</script>\n'
            f"<script>{_in_script(get_plotlyjs())}</script>\n<script>{_in_script(script)}</script>\n"
        )


def _controls(names: dict[str, str]) -> str:
    """Selectors by the last part of their id; the program hides selectors with one option."""
    labels = "".join(
        f'<label>{text} <select id="choose-{name}"></select></label>\n'
        for name, text in names.items()
    )
    return f'<div class="controls">\n{labels}</div>\n'


def embedded(data: Any) -> str:
    """JSON that ends no script element and starts no comment, whatever names are in it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _in_script(code: str) -> str:
    """JavaScript inside a script element; in strings and regular expressions it stays the same."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def write(result: RunComparison, path: Path, *, reload_seconds: float | None = None) -> Path:
    """Write the page.

    Args:
        result: the comparison.
        path: of the file.
        reload_seconds: the page loads itself again after so long; for `--watch`.
    """
    parts: list[report.Section] = [report.Text("Conclusion", conclusions(result))]
    if result.notes:
        parts.append(_List("To know", result.notes))
    first, *others = tables(result)
    parts += [_Groups(first, result), _Plots(views(result)), *others]
    parts.append(report.KeyValues("How this was computed", vars(result.options)))
    reload = ""
    if reload_seconds is not None:
        reload = f'<meta http-equiv="refresh" content="{max(1, round(reload_seconds))}">\n'
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n{reload}'
        f"<style>{_CSS}</style>\n"
    )
    groups, seeds = counted(len(result.groups), "group"), counted(len(result.seeds), "seed")
    subtitle = f"{compared_quantity(result)}: {groups}, {seeds}"
    return report.write_report(path, "Comparison of runs", subtitle, parts, head=head)
