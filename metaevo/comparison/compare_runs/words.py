"""A comparison of runs in sentences and tables, for the terminal and the page."""

import math
from collections.abc import Callable
from functools import partial

from metaevo.comparison.compare_runs.grouping import change_together
from metaevo.comparison.compare_runs.results import PairResult, RunComparison
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.config.plain import PlainDict
from metaevo.reports.numbers import MISSING, counted, estimate, number, p_value
from metaevo.reports.page import Table
from metaevo.statistics import MOST_RUNS, Estimate

NOT_REACHED = "not reached"


def compared_quantity(result: RunComparison, *, scaled: bool = True) -> str:
    """Describe the compared score, such as "mean return, mean of the last tenth of a run"."""
    chosen = result.selection
    scale = ", scaled on each task from 0 to 1" if scaled and len(result.optimum) > 1 else ""
    if chosen.is_evaluation:
        variant = chosen.metric.partition(":")[2]
        return f"scores of evaluation.json{f' ({variant})' if variant else ''}{scale}"
    name = chosen.metric.replace("_", " ") if chosen.metric == "mean_return" else chosen.metric
    how = {
        "final": "mean of the last tenth of a run",
        "area": "mean over a whole run (area under the curve)",
        "best": f"{'lowest' if chosen.lower_is_better else 'highest'} point of a run",
    }
    return f"{name}, {how[result.options.score]}{scale}"


def conclusion(result: RunComparison) -> str:
    """Return the conclusion; the numbers behind it are in the tables."""
    best = result.groups[0]
    value = {each.label: f"{each.label} ({number(each.iqm.value)})" for each in result.groups}
    if len(result.groups) == 1:
        return (
            f"There is only one group ({best.label}, {counted(len(best.seeds), 'seed')}), so there "
            "is no comparison. Group by a setting with --group-by, or add more runs."
        )
    if result.selection.direction is None:
        return (
            "Undecided, because it is unknown whether high or low values of "
            f"{result.selection.metric} are better. {value[best.label]} is highest."
        )
    pairs = [pair for pair in result.pairs if pair.first == best.label]
    if not pairs:
        return f"{value[best.label]} leads, but shares no task with the other groups."
    rivals = [pair for pair in pairs if pair.verdict != "better"]
    if rivals:
        beaten = len(pairs) - len(rivals)
        better = f" {best.label} is better than {counted(beaten, 'other group')}." if beaten else ""
        leads = f"leads; {_needs(rivals[0])}"
        if rivals[0].difference.value == 0:
            leads = f"and {value[rivals[0].second]} score the same"
        return f"Undecided: {value[best.label]} {leads}.{better}"
    lead = pairs[0].difference
    by = f"by {estimate(abs(lead.value), *sorted(map(abs, lead.interval)))}"
    if len(pairs) == 1:
        return f"{value[best.label]} is better than {value[pairs[0].second]}, {by}."
    others = "both others" if len(pairs) == 2 else f"all {len(pairs)} others"
    next_best = f"the next is {value[pairs[0].second]}, behind {by}"
    return f"{value[best.label]} is better than {others}; {next_best}."


def _needs(pair: PairResult) -> str:
    """Explain what would decide an undecided pair."""
    rival, (a, b) = pair.second, pair.seeds
    few = f"{a} and {b} seeds are too few for a verdict" if pair.smallest_p > 0.05 else ""
    if not math.isfinite(pair.needed):
        return few or f"it does not differ from {rival}"
    if pair.needed > MOST_RUNS:
        return f"separating it from {rival} would need more than {MOST_RUNS:,} seeds in each group"
    if pair.needed <= min(pair.seeds):
        return f"a few more seeds may separate it from {rival}"
    needed = f"about {pair.needed:.0f} seeds in each group would separate it from {rival}"
    return f"{few}; {needed}" if few else needed


# --- Tables -------------------------------------------------------------------------------------


def tables(result: RunComparison) -> list[Table]:
    """Return all tables with rows, the most important first."""
    optimum = ", ".join(map(number, result.optimum.values()))
    levels = dict.fromkeys(number(row.threshold) for row in result.efficiency)
    axis = AXES[result.selection.axis].capitalize()
    several = f", adjusted by Holm's method for all {result.comparisons} pairs"
    origin = (
        "" if result.options.threshold is not None
        else ": 90% of the way from the worst to the best point of the groups' mean curves"
    )  # fmt: skip
    described: dict[str, tuple[str, str]] = {
        "groups": (
            f"Groups: {compared_quantity(result)}",
            "IQM: mean of the middle half of the seeds. Intervals: stratified bootstrap. Gap: mean "
            f"distance below {optimum} ({result.optimum_is}).",
        ),
        "pairs": (
            "Comparisons",
            f"p: Mann-Whitney{several if result.comparisons > 1 else ''}. A verdict needs p below "
            "0.05 and an interval that excludes 0; with fewer than 4 seeds in both groups, no data "
            "meet both. Seeds needed: in each group, for 80% power at the observed difference and "
            "spread.",
        ),
        "tasks": ("By task", ""),
        "efficiency": (
            f"{axis} to reach {', '.join(levels)}{origin}",
            "Reached at: the first point where the interquartile mean of a group's curves is at "
            "the threshold or better. Seeds that reach: seeds with at least one such point. "
            "--threshold sets another threshold.",
        ),
        "effects": (
            "Settings that differ",
            "Seeds are pooled over all other settings. Difference: from the best value. p: "
            f"adjusted by Holm's method.{_confounded(result)}",
        ),
        "runs": ("Runs", ""),
    }
    rows = result.rows()
    if len(result.optimum) == 1:
        del rows["tasks"]
    return [
        _shown(heading, rows[name], note, highlight=name == "groups" and bool(result.pairs))
        for name, (heading, note) in described.items()
        if rows.get(name)
    ]


def _confounded(result: RunComparison) -> str:
    note = ""
    for first, *others in change_together(result.seeds):
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        note += (
            f" {first} always changes together with {', '.join(others[:6])}{more}: their effects "
            "cannot be separated."
        )
    return note


def _difference(*values: float) -> str:
    return MISSING if math.isnan(values[0]) else estimate(*values, sign=True)


def _reached(*positions: float) -> str:
    """Format a position and its interval; infinite ones are not reached."""
    if all(map(math.isfinite, positions)):
        return estimate(*positions)
    if all(map(math.isinf, positions)):
        return NOT_REACHED
    at, low, high = (number(x) if math.isfinite(x) else NOT_REACHED for x in positions)
    return f"{at} [{low}, {high}]"


_FORMATS: dict[str, Callable[..., str]] = {
    "p": p_value,
    "seeds_needed": lambda needed: f"{needed:,}" if math.isfinite(needed) else MISSING,
    "progress": "{:.0%}".format,
    "difference": _difference,
    "probability_of_improvement": partial(estimate, decimals=2),
    "reached_at": _reached,
}
"""Formats of numbers and of estimates by column; other columns have the default."""


def _shown(heading: str, rows: list[PlainDict], note: str, *, highlight: bool) -> Table:
    """Return rows as a table, without the task if it is the same in all."""
    columns = list(rows[0])
    if len({row.get("task") for row in rows}) == 1:
        columns = [name for name in columns if name != "task"]
    cells = [[_cell(name, row[name]) for name in columns] for row in rows]
    intervals = {name for name in columns if isinstance(rows[0][name], Estimate)}
    names = [f"{name} [95%]" if name in intervals else name for name in columns]
    names = [name.replace("_", " ").replace("iqm", "IQM") for name in names]
    return Table(heading, names, cells, note, highlight=[0] if highlight else [])


def _cell(name: str, value: object) -> object:
    if isinstance(value, Estimate):
        return _FORMATS.get(name, estimate)(value.value, *value.interval)
    return _FORMATS[name](value) if name in _FORMATS and value is not None else value


def terminal(result: RunComparison) -> str:
    """Return the whole comparison as text, without control characters."""
    parts = [table.text() for table in tables(result)]
    parts.append(f"- {conclusion(result)}")
    if result.notes:
        parts.append("\n".join(f"note: {note}" for note in result.notes))
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in "\n\n".join(parts))
