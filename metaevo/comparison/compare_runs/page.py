"""The interactive page of a comparison of runs: one file without server or network."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from plotly.offline import get_plotlyjs

from metaevo.comparison.compare_runs import curves, figures
from metaevo.comparison.compare_runs.grouping import Group, differing, group, known_key
from metaevo.comparison.compare_runs.results import RunComparison, TableName
from metaevo.comparison.compare_runs.seed_run import AXES, SeedRun
from metaevo.comparison.compare_runs.words import compared_quantity, conclusion, tables
from metaevo.config import files
from metaevo.reports import page as report
from metaevo.reports.numbers import counted
from metaevo.statistics import FloatArray

# The browser loads no other file, even if a name in the data or a later Plotly requests one.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; form-action 'none'; base-uri 'none'"
)
_MOST_BARS = 12
"""Groups in the plot of intervals."""
_MOST_GROUPINGS, _MOST_GROUPS = 10, 60
"""Single settings to group by, and groups with middle curves."""
_RESAMPLES = 200
_CSS = """
.controls { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; margin: 0 0 .6rem; }
.controls label { color: var(--soft); font-size: .9rem; max-width: 100%; }
.controls label[hidden] { display: none; }
.controls select { display: block; font: inherit; color: var(--ink); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: .3rem .5rem; max-width: 100%; }
.plot { width: 100%; min-height: 120px; }
.wide table { font-size: .86rem; }
.wide th, .wide td { padding: .35rem .6rem; }
td:not(.number) { overflow-wrap: break-word; min-width: 7rem; max-width: 24rem; }
"""


# --- Data ---------------------------------------------------------------------------------------


def views(result: RunComparison) -> dict[str, object]:
    """Return the data that page.js draws: seeds with curves, and groupings with middle curves."""
    seeds, chosen = result.seeds, result.selection
    number = {seed: index for index, seed in enumerate(seeds)}
    tasks = sorted({seed.task for seed in seeds})
    axes = [axis for axis in AXES if all(axis in seed.axes for seed in seeds)]
    points: dict[str, dict[str, FloatArray]] = {axis: {} for axis in axes}
    aligned: dict[tuple[str, SeedRun], FloatArray] = {}
    for axis, task in itertools.product(axes, tasks):
        own = [seed for seed in seeds if seed.task == task]
        raw = [curves.curve(seed, chosen.metric, axis) for seed in own]
        points[axis][task] = curves.grid(raw)
        rows = curves.align(raw, points[axis][task])
        aligned |= {(axis, seed): row for seed, row in zip(own, rows, strict=True)}

    def middle(members: Group, axis: str, task: str) -> object:
        own = [aligned[axis, seed] for seed in members.on(task)]
        if not own:
            return None
        part = curves.middle(points[axis][task], np.stack(own), _RESAMPLES)
        named = {"x": part.x, "y": part.iqm, "low": part.low, "high": part.high}
        return {name: _rounded(values) for name, values in named.items()}

    def middles(members: Group) -> object:
        return {axis: {task: middle(members, axis, task) for task in tasks} for axis in axes}

    return {
        "what": compared_quantity(result, scaled=False),
        "metric": chosen.metric.replace("_", " "),
        "seeds": [
            {"name": f"{seed.run} seed {seed.seed}", "task": seed.task,
             "score": result.scores[seed],
             "curves": {axis: _rounded(aligned[axis, seed]) for axis in axes}}
            for seed in seeds
        ],
        "groupScale": compared_quantity(result),
        "groups": [
            {"label": each.label, "iqm": each.iqm.value, "interval": each.iqm.interval}
            for each in result.groups[:_MOST_BARS]
        ],
        "tasks": tasks,
        "points": {
            axis: {task: _rounded(values) for task, values in by_task.items()}
            for axis, by_task in points.items()
        },
        "groupings": [
            {
                "name": name,
                "groups": [
                    {"label": each.label, "seeds": [number[seed] for seed in each.seeds],
                     "middles": middles(each) if len(groups) <= _MOST_GROUPS else None}
                    for each in groups
                ],
            }
            for name, groups in _groupings(result, seeds).items()
        ],
        "axisNames": AXES,
        "axis": chosen.axis,
    }  # fmt: skip


def _groupings(result: RunComparison, seeds: Sequence[SeedRun]) -> dict[str, Sequence[Group]]:
    """Return the groupings that the page offers, starting with the grouping in the tables."""
    every, run = "all settings that differ", "run"
    own = [known_key(key, seeds) for key in result.options.group_by or ()]
    found: dict[str, Sequence[Group]] = {", ".join(own) or every: result.groups}
    if own:
        found.setdefault(every, group(seeds))
    for key in list(differing(seeds))[:_MOST_GROUPINGS]:
        found.setdefault(key, group(seeds, [key]))
    if len({seed.run for seed in seeds}) > 1:
        found.setdefault(run, group(seeds, [run]))
    return found


def _rounded(values: FloatArray) -> list[float | None]:
    """Round to six digits; JSON has no NaN."""
    return [float(f"{each:.6g}") if np.isfinite(each) else None for each in values.tolist()]


# --- HTML ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plots:
    """Controls, plots, data and program."""

    data: dict[str, object]

    def html(self) -> str:
        data = json.dumps(self.data, allow_nan=False, separators=(",", ":"))
        data = data.replace("<", "\\u003c")  # a name cannot end the script element
        script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
        return (
            '<div id="groups" class="plot"></div>\n<p class="note">IQM and 95% interval of each '
            'group.</p>\n<div id="controls" class="controls"></div>\n'
            '<div id="curves-part"><h2>Curves</h2>\n'
            '<div id="curves-controls" class="controls"></div>\n'
            '<div id="curves" class="plot"></div>\n'
            '<p class="note">Line: interquartile mean over seeds, up to the end of the shortest '
            "seed; band: 95% bootstrap interval. Click a name to hide it, double-click to isolate "
            "it; drag to zoom, double-click the plot to reset.</p></div>\n"
            '<h2>Scores of single seeds</h2>\n<div id="scores" class="plot"></div>\n'
            '<h2>Performance profile</h2>\n<div id="profile" class="plot"></div>\n'
            '<p class="note">The share of seeds with more than this score. A group with the higher '
            "curve everywhere is better by any statistic.</p>\n"
            f'<script type="application/json" id="comparison-data">{data}</script>\n'
            f"<script>{get_plotlyjs()}</script>\n<script>{script}</script>\n"
        )


def save(result: RunComparison, folder: Path, *, reload_seconds: float | None = None) -> Path:
    """Write the page, the figure and comparison.json; return the path of the page.

    For `--watch`, the page reloads itself every `reload_seconds`.

    Raises:
        ConfigError: if a file cannot be written.
    """
    try:
        files.write_json_atomic(folder / "comparison.json", _content(result))
        if result.efficiency:
            figures.draw_curves(result, folder / "figures" / "curves.png")
        head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        if reload_seconds is not None:
            seconds = max(1, round(reload_seconds))
            head += f'<meta http-equiv="refresh" content="{seconds}">\n'
        head += f"<style>{_CSS}</style>\n"
        groups, seeds = counted(len(result.groups), "group"), counted(len(result.seeds), "seed")
        subtitle = f"{compared_quantity(result)}: {groups}, {seeds}"
        return report.write_report(
            folder / "index.html", "Comparison of runs", subtitle, _sections(result), head=head
        )
    except OSError as error:
        raise files.unwritable(folder, error) from None


def _sections(result: RunComparison) -> list[report.Section]:
    first, *others = tables(result)
    notes = [report.Text("Notes", result.notes)] if result.notes else []
    return [
        report.Text("Conclusion", conclusion(result)),
        *notes,
        first,
        _Plots(views(result)),
        *others,
        report.KeyValues("How this was computed", vars(result.options)),
    ]


def _content(result: RunComparison) -> dict[str, object]:
    """Return the content of comparison.json."""
    chosen = result.selection
    return {
        "compared": compared_quantity(result),
        "metric": chosen.metric,
        "axis": chosen.axis,
        "judged_at": chosen.ends,
        "options": asdict(result.options),
        "conclusions": [conclusion(result)],
        "notes": result.notes,
        "comparisons": result.comparisons,
        "optimum": result.optimum,
        "optimum_is": result.optimum_is,
        **{name: result.table(name) for name in get_args(TableName)},
        "curves": [
            {"group": row.group, "task": row.task, "x": row.middle.x, "iqm": row.middle.iqm,
             "low": row.middle.low, "high": row.middle.high}
            for row in result.efficiency
        ],
    }  # fmt: skip
