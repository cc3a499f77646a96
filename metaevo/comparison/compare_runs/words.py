"""A comparison in sentences and tables, the same ones in the terminal and on the page."""

import numpy as np

from metaevo.comparison.compare_runs.analysis import Analysis, PairRow, change_together
from metaevo.comparison.compare_runs.directions import EVALUATION, direction
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.reports.numbers import cell
from metaevo.reports.page import Table
from metaevo.statistics import MOST_RUNS, Estimate


def what(analysis: Analysis) -> str:
    """What is compared, in words."""
    chosen, how = analysis.selection, analysis.options.score
    scaled = ", scaled on each task from 0 to 1" if len(analysis.optimum) > 1 else ""
    if chosen.metric == EVALUATION:
        variant = f" ({chosen.variant})" if chosen.variant else ""
        return f"scores of evaluation.json{variant}{scaled}"
    name = chosen.metric.replace("_", " ") if chosen.metric == "mean_return" else chosen.metric
    words = {
        "final": "mean of the last tenth of a run",
        "area": "mean of a whole run",
        "best": f"{'lowest' if chosen.lower_is_better else 'highest'} point of a run",
    }
    return f"{name}, {words[how]}{scaled}"


def _adjectives(analysis: Analysis) -> tuple[str, str]:
    """Which is better is not known of every metric."""
    known = direction(analysis.selection.metric) is not None
    return ("better than", "worse than") if known else ("higher than", "lower than")


def conclusions(analysis: Analysis) -> list[str]:
    """What may be said, in a sentence or two; all numbers behind it are in the tables."""
    best, *others = analysis.rows
    if not others:
        return [
            f"There is one group only ({best.label}, {_count(best.seeds)}): nothing to compare it "
            "with. Group by a setting with --group-by, or name more runs."
        ]
    if not analysis.pairs:
        return ["The groups have no task in common: nothing can be compared."]
    value = {row.label: cell(row.iqm.value) for row in analysis.rows}
    mine = [pair for pair in analysis.pairs if pair.first == best.label]
    if not mine:
        return [f"{best.label} leads ({value[best.label]}), but shares no task with the others."]
    better = _adjectives(analysis)[0]
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
        return [text]
    lead = mine[0].contrast.difference
    low, high = sorted(abs(each) for each in lead.interval)
    by = f"by {cell(abs(lead.value))} [{cell(low)}, {cell(high)}]"
    first = f"{best.label} ({value[best.label]})"
    second = f"{mine[0].second} ({value[mine[0].second]})"
    if len(mine) == 1:
        return [f"{first} is {better} {second}, {by}."]
    return [f"{first} is {better} all {len(mine)} others; the next is {second}, behind {by}."]


def _needs(pair: PairRow) -> str:
    """What it would take to separate a pair of which nothing is claimed."""
    rival, (a, b) = pair.second, pair.seeds
    if not pair.claimable:
        return "seeds without a score are left out, so that nothing is claimed"
    few = f"{a} against {b} seeds are too few to tell" if pair.smallest_p > 0.05 else ""
    if not np.isfinite(pair.needed):
        return few or f"nothing separates it from {rival}"
    if pair.needed > MOST_RUNS:
        return f"more than {MOST_RUNS:,} seeds would be needed to separate it from {rival}"
    if pair.needed <= min(pair.seeds):
        return f"a few more seeds may separate it from {rival}"
    needed = f"about {pair.needed:.0f} seeds would separate it from {rival}"
    return f"{few}, {needed}" if few else needed


def _small(p: float) -> str:
    """A p value; beyond three decimals nobody should read it."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def tables(analysis: Analysis) -> list[Table]:
    """All tables, the most important first; those without rows are left out."""
    found = [
        _groups(analysis), _pairs(analysis), _tasks(analysis), _paired(analysis),
        _efficiency(analysis), _effects(analysis), _sources(analysis),
    ]  # fmt: skip
    return [table for table in found if table.rows]


def _groups(analysis: Analysis) -> Table:
    optimum = ", ".join(cell(value) for value in analysis.optimum.values())
    return Table(
        f"Groups: {what(analysis)}",
        ["group", "seeds", "IQM", "95% interval", "mean", "std", "optimality gap", "gap 95%"],
        [
            [
                row.label, row.seeds, row.iqm.value, row.iqm.interval, row.mean, row.std,
                row.gap.value, row.gap.interval,
            ]
            for row in analysis.rows
        ],
        note="IQM: mean of the middle half of the seeds. Intervals: stratified bootstrap. "
        f"Optimality gap: mean distance below {optimum} ({analysis.optimum_is}).",
        highlight=0 if analysis.pairs else None,
    )  # fmt: skip


def _pairs(analysis: Analysis) -> Table:
    return Table(
        "Comparisons",
        ["group", "against", "verdict", "difference", "95% interval", "P(improvement)",
         "95%", "p", "seeds needed"],
        [
            [
                pair.first, pair.second,
                pair.verdict if _adjectives(analysis)[0] == "better than" else
                {"better": "higher", "worse": "lower"}.get(pair.verdict, pair.verdict),
                signed(pair.contrast.difference.value), pair.contrast.difference.interval,
                f"{pair.contrast.probability.value:.2f}",
                _two(pair.contrast.probability), _small(pair.adjusted_p), _needed(pair),
            ]
            for pair in analysis.pairs
        ],
        note="p: Mann-Whitney"
        + (
            f", adjusted by Holm's method for all {analysis.comparisons} pairs"
            if analysis.comparisons > 1 else ""
        )
        + ". A verdict needs p below 0.05 and an interval that excludes 0; fewer than 4 against 4 "
        "seeds never have both. Seeds needed: of each group, for 80% power at the observed "
        "difference and spread.",
    )  # fmt: skip


def _needed(pair: PairRow) -> str:
    if not np.isfinite(pair.needed):
        return "-"
    return f"{pair.needed:.0f}" if pair.needed <= MOST_RUNS else f"over {MOST_RUNS:,}"


def _tasks(analysis: Analysis) -> Table:
    tasks = list(analysis.optimum)
    rows: list[list[object]] = []
    if len(tasks) > 1:
        for row in analysis.rows:
            for task, value in row.by_task.items():
                count = next(len(s.scores[task]) for s in analysis.groups if s.label == row.label)
                rows.append([task, row.label, count, value.value, value.interval])
    rows.sort(key=lambda row: str(row[0]))
    return Table("By task", ["task", "group", "seeds", "IQM", "95% interval"], rows)


def _paired(analysis: Analysis) -> Table:
    return Table(
        "Matching seeds",
        ["group", "against", "pairs", "mean difference", "95% interval", "Wilcoxon p",
         "correlation"],
        [
            [
                pair.first, pair.second, pair.paired.pairs, signed(pair.paired.difference.value),
                pair.paired.difference.interval, _small(pair.paired.p),
                None if np.isnan(pair.paired.correlation) else f"{pair.paired.correlation:.2f}",
            ]
            for pair in analysis.pairs
            if pair.paired is not None
        ],
        note="Differences between seeds with the same random numbers. They are surer than the "
        "comparison above only where partners correlate; p is not adjusted, no verdict rests on "
        "it.",
    )  # fmt: skip


def _efficiency(analysis: Analysis) -> Table:
    several = len(analysis.optimum) > 1
    levels = list(dict.fromkeys(cell(row.threshold) for row in analysis.efficiency))
    chosen = (
        "given" if analysis.options.threshold is not None
        else "90% of the way from the worst to the best point of any group's middle"
    )  # fmt: skip

    def point(value: float | None) -> str:
        return "not reached" if value is None else cell(round(value, 3))

    return Table(
        f"{AXES[analysis.selection.axis].capitalize()} to reach {', '.join(levels)}",
        [
            *(["task"] * several), "group", "middle of the group", "95% interval",
            "single seeds, at some point",
        ],
        [
            [
                *([row.task] * several), row.label, point(row.reached_at),
                f"[{point(row.interval[0])}, {point(row.interval[1])}]",
                f"{row.seeds_that_reach} of {row.seeds}",
            ]
            for row in analysis.efficiency
        ],
        note=f"The threshold is {chosen}; --threshold names another. The middle "
        "is the interquartile mean of a group's curves. A single seed counts with any one point of "
        "its curve, so that all may touch what their middle never reaches.",
    )  # fmt: skip


def _effects(analysis: Analysis) -> Table:
    seeds = [seed for each in analysis.groups for seed in each.group.seeds]
    note = "Seeds are pooled over all other settings. Difference: to the best value. p: adjusted."
    for first, *others in change_together(seeds):
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        note += (
            f" {first} always changes together with {', '.join(others[:6])}{more}: nothing tells "
            "their effects apart."
        )
    return Table(
        "Settings that differ",
        ["setting", "value", "seeds", "IQM", "95% interval", "difference", "95%", "p"],
        [
            [
                row.key, row.value, row.seeds, row.iqm.value, row.iqm.interval,
                signed(row.difference.value) if row.difference else None,
                row.difference.interval if row.difference else None,
                None if row.p is None else _small(row.p),
            ]
            for row in analysis.effects
        ],
        note=note,
    )  # fmt: skip


def _sources(analysis: Analysis) -> Table:
    used = {id(seed) for seed in analysis.selection.seeds}
    return Table(
        "Runs",
        ["run", "read from", "seeds used", "state"],
        [
            [each.name, each.kind, sum(id(s) in used for s in each.seeds), each.status]
            for each in analysis.sources
        ],
    )


def _two(estimate: Estimate) -> str:
    low, high = estimate.interval
    return f"[{low:.2f}, {high:.2f}]"


def signed(value: float) -> str:
    """A difference with its sign."""
    text = cell(value)
    return text if text.startswith("-") else f"+{text}"


def _count(seeds: int) -> str:
    return f"{seeds} seed{'s' * (seeds != 1)}"


def terminal(analysis: Analysis) -> str:
    """Everything for a terminal."""
    parts = [table.text() for table in tables(analysis)]
    parts += ["\n".join(f"- {line}" for line in conclusions(analysis))]
    if analysis.notes:
        parts.append("\n".join(f"note: {note}" for note in analysis.notes))
    # A name cannot move the cursor.
    text = "\n\n".join(parts)
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
