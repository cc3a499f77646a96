"""A comparison of runs in sentences and tables, for the terminal and the page."""

import math

from metaevo.comparison.compare_runs.grouping import change_together
from metaevo.comparison.compare_runs.results import PairResult, RunComparison
from metaevo.comparison.compare_runs.seed_run import AXES, EVALUATION
from metaevo.reports.numbers import counted, estimate, fixed, interval, number, p_value
from metaevo.reports.page import Table
from metaevo.statistics import MOST_RUNS, Estimate


def compared_quantity(result: RunComparison, *, scaled: bool = True) -> str:
    """Describe the compared score, such as "mean return, mean of the last tenth of a run".

    Args:
        result: the comparison.
        scaled: whether to mention that scores of several tasks are scaled.
    """
    chosen = result.selection
    scale = ", scaled on each task from 0 to 1" if scaled and len(result.optimum) > 1 else ""
    if chosen.metric == EVALUATION:
        variant = f" ({chosen.variant})" if chosen.variant else ""
        return f"scores of evaluation.json{variant}{scale}"
    name = chosen.metric.replace("_", " ") if chosen.metric == "mean_return" else chosen.metric
    how = {
        "final": "mean of the last tenth of a run",
        "area": "mean of a whole run",
        "best": f"{'lowest' if chosen.lower_is_better else 'highest'} point of a run",
    }
    return f"{name}, {how[result.options.score]}{scale}"


def conclusion(result: RunComparison) -> str:
    """Return the conclusion; the numbers behind it are in the tables."""
    best = result.groups[0]
    if len(result.groups) == 1:
        return (
            f"There is only one group ({best.label}, {counted(best.count, 'seed')}), so there is "
            "no comparison. Group by a setting with --group-by, or add more runs."
        )
    if not result.pairs:
        return "The groups have no task in common, so they cannot be compared."
    value = {each.label: number(each.iqm.value) for each in result.groups}
    mine = [pair for pair in result.pairs if pair.first == best.label]
    if not mine:
        return f"{best.label} leads ({value[best.label]}), but shares no task with the others."
    better = "better than" if result.selection.is_directed else "higher than"
    beaten = [pair.second for pair in mine if pair.verdict == "better"]
    rivals = [pair for pair in mine if pair.verdict != "better"]
    if rivals:
        text = f"Undecided: {best.label} leads ({value[best.label]}); {_needs(rivals[0])}."
        if len(rivals) > 1:
            more = rivals[1].second if len(rivals) == 2 else f"{len(rivals) - 1} more"
            text += f" It is undecided against {more}, too."
        if beaten:
            names = f"the other {len(beaten)}" if len(beaten) > 1 else beaten[0]
            text += f" It is {better} {names}."
        return text
    lead = mine[0].contrast.difference
    by = f"by {estimate(abs(lead.value), *sorted(map(abs, lead.interval)))}"
    first = f"{best.label} ({value[best.label]})"
    second = f"{mine[0].second} ({value[mine[0].second]})"
    if len(mine) == 1:
        return f"{first} is {better} {second}, {by}."
    others = "both others" if len(mine) == 2 else f"all {len(mine)} others"
    return f"{first} is {better} {others}; the next is {second}, behind {by}."


def _needs(pair: PairResult) -> str:
    """Explain what would decide an undecided pair."""
    rival, (a, b) = pair.second, pair.seeds
    if not pair.complete:
        return "seeds without a score are left out, so no conclusion is drawn"
    few = f"{a} against {b} seeds are too few to decide" if pair.smallest_p > 0.05 else ""
    if not math.isfinite(pair.needed):
        return few or f"it does not differ from {rival}"
    if pair.needed > MOST_RUNS:
        return f"more than {MOST_RUNS:,} seeds would be needed to separate it from {rival}"
    if pair.needed <= min(pair.seeds):
        return f"a few more seeds may separate it from {rival}"
    needed = f"about {pair.needed:.0f} seeds would separate it from {rival}"
    return f"{few}, {needed}" if few else needed


def tables(result: RunComparison) -> list[Table]:
    """Return all tables with rows, the most important first."""
    found = [
        _groups(result), _pairs(result), _tasks(result), _paired(result), _efficiency(result),
        _effects(result), _sources(result),
    ]  # fmt: skip
    return [table for table in found if table.rows]


def _groups(result: RunComparison) -> Table:
    optimum = ", ".join(map(number, result.optimum.values()))
    return Table(
        f"Groups: {compared_quantity(result)}",
        ["group", "seeds", "IQM", "95% interval", "mean", "std", "optimality gap", "gap 95%"],
        [
            [each.label, each.count, *each.iqm, each.mean, each.std, *each.gap]
            for each in result.groups
        ],
        note="IQM: mean of the middle half of the seeds. Intervals: stratified bootstrap. "
        f"Optimality gap: mean distance below {optimum} ({result.optimum_is}).",
        highlight=0 if result.pairs else None,
    )


def _difference(found: Estimate) -> str:
    return estimate(found.value, *found.interval, sign=True)


def _pairs(result: RunComparison) -> Table:
    words = {} if result.selection.is_directed else {"better": "higher", "worse": "lower"}
    several = f", adjusted by Holm's method for all {result.comparisons} pairs"
    return Table(
        "Comparisons",
        ["group", "against", "verdict", "difference [95%]", "P(improvement) [95%]", "p",
         "seeds needed"],
        [
            [
                pair.first, pair.second, words.get(pair.verdict, pair.verdict),
                _difference(pair.contrast.difference),
                estimate(pair.contrast.probability.value, *pair.contrast.probability.interval,
                         decimals=2),
                p_value(pair.adjusted_p), _seeds_needed(pair.needed),
            ]
            for pair in result.pairs
        ],
        note=f"p: Mann-Whitney{several if result.comparisons > 1 else ''}. A verdict needs p below "
        "0.05 and an interval that excludes 0; fewer than 4 against 4 seeds never have both. Seeds "
        "needed: of each group, for 80% power at the observed difference and spread.",
    )  # fmt: skip


def _seeds_needed(needed: float) -> str:
    if not math.isfinite(needed):
        return "-"
    return f"{needed:.0f}" if needed <= MOST_RUNS else f"over {MOST_RUNS:,}"


def _tasks(result: RunComparison) -> Table:
    rows = [
        [task, each.label, len(each.scores[task]), *each.by_task[task]]
        for task in result.optimum
        for each in result.groups
        if task in each.by_task
    ]
    columns = ["task", "group", "seeds", "IQM", "95% interval"]
    return Table("By task", columns, rows if len(result.optimum) > 1 else [])


def _paired(result: RunComparison) -> Table:
    return Table(
        "Matching seeds",
        ["group", "against", "pairs", "mean difference [95%]", "Wilcoxon p", "correlation"],
        [
            [
                pair.first, pair.second, each.pairs, _difference(each.difference), p_value(each.p),
                None if math.isnan(each.correlation) else fixed(each.correlation, 2),
            ]
            for pair in result.pairs
            if (each := pair.paired) is not None
        ],
        note="Differences between seeds with the same random numbers. They are more precise than "
        "the comparison above only if partners correlate. p is not adjusted and not used for the "
        "verdict.",
    )  # fmt: skip


def _efficiency(result: RunComparison) -> Table:
    several = len(result.optimum) > 1
    levels = dict.fromkeys(number(row.threshold) for row in result.efficiency)
    chosen = (
        "given" if result.options.threshold is not None
        else "90% of the way from the worst to the best point of any group's middle"
    )  # fmt: skip
    rows: list[list[object]] = []
    for row in result.efficiency:
        reached = "not reached" if row.reached_at is None else number(row.reached_at)
        ends = interval(*row.interval) if None not in row.interval else (
            f"[{', '.join('never' if end is None else number(end) for end in row.interval)}]"
        )  # fmt: skip
        seeds = f"{row.seeds_that_reach} of {row.seeds}"
        rows.append([*([row.task] * several), row.label, reached, ends, seeds])
    return Table(
        f"{AXES[result.selection.axis].capitalize()} to reach {', '.join(levels)}",
        [
            *(["task"] * several), "group", "middle of the group", "95% interval",
            "single seeds, at some point",
        ],
        rows,
        note=f"The threshold is {chosen}; --threshold sets another one. The middle is the "
        "interquartile mean of a group's curves. A single seed counts with any one point of its "
        "curve, so all seeds may reach a level that their middle does not.",
    )  # fmt: skip


def _effects(result: RunComparison) -> Table:
    note = "Seeds are pooled over all other settings. Difference: from the best value. p: adjusted."
    for first, *others in change_together(result.seeds):
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        note += (
            f" {first} always changes together with {', '.join(others[:6])}{more}: their effects "
            "cannot be separated."
        )
    return Table(
        "Settings that differ",
        ["setting", "value", "seeds", "IQM", "95% interval", "difference [95%]", "p"],
        [
            [
                row.key, row.value, row.count, *row.iqm,
                row.difference and _difference(row.difference),
                None if row.p is None else p_value(row.p),
            ]
            for row in result.effects
        ],
        note=note,
    )  # fmt: skip


def _sources(result: RunComparison) -> Table:
    used = {id(seed) for seed in result.selection.seeds}
    return Table(
        "Runs",
        ["run", "read from", "seeds used", "state"],
        [
            [each.name, each.kind, sum(id(s) in used for s in each.seeds), each.status]
            for each in result.sources
        ],
    )


def terminal(result: RunComparison) -> str:
    """Return the whole comparison as text, without control characters."""
    parts = [table.text() for table in tables(result)]
    parts.append(f"- {conclusion(result)}")
    if result.notes:
        parts.append("\n".join(f"note: {note}" for note in result.notes))
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in "\n\n".join(parts))
