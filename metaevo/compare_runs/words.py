"""A comparison in sentences and tables, the same ones in the terminal and on the page."""

import numpy as np

from metaevo.compare_runs.analysis import Analysis, PairRow, change_together
from metaevo.compare_runs.directions import EVALUATION, direction
from metaevo.compare_runs.seed_run import AXES
from metaevo.report.page import Table, cell
from metaevo.statistics.strata import MOST_RUNS, Estimate

_MOST_SENTENCES = 10


def what(analysis: Analysis) -> str:
    """What is compared, in words."""
    chosen, how = analysis.selection, analysis.options.score
    if chosen.metric == EVALUATION:
        return "scores of evaluation.json" + (f" ({chosen.variant})" if chosen.variant else "")
    name = chosen.metric.replace("_", " ") if chosen.metric == "mean_return" else chosen.metric
    words = {
        "final": "over the last tenth of the way",
        "area": "over the whole curve",
        "best": "highest point of the curve",
    }
    return f"{name}, {words[how]}"


def _adjectives(analysis: Analysis) -> tuple[str, str]:
    """Which is better is not known of every metric."""
    known = direction(analysis.selection.metric) is not None
    return ("better than", "worse than") if known else ("higher than", "lower than")


def conclusions(analysis: Analysis) -> list[str]:
    """Which is better, by how much, how sure; a sentence or two a pair."""
    if len(analysis.rows) == 1:
        row = analysis.rows[0]
        return [
            f"There is one group only ({row.label}, {_count(row.seeds)}): nothing to compare it "
            "with. Group by a setting with --group-by, or name more runs."
        ]
    if not analysis.pairs:
        return ["The groups have no task in common: nothing can be compared."]
    pairs = analysis.pairs
    if len(pairs) <= _MOST_SENTENCES:
        lines = [_ranking(analysis)] if len(analysis.rows) > 2 else []
        return [*lines, *(_sentence(analysis, pair) for pair in pairs)]
    # Many groups: what is surely worse needs no sentence each, the table has the numbers.
    open_ones = [pair for pair in pairs if pair.verdict == "undecided"]
    lines = [_ranking(analysis)]
    lines += [_sentence(analysis, pair) for pair in open_ones[:_MOST_SENTENCES]]
    if len(open_ones) > _MOST_SENTENCES:
        lines.append(f"{len(open_ones) - _MOST_SENTENCES} more are undecided: see the table.")
    return lines


def _ranking(analysis: Analysis) -> str:
    best = analysis.ranked[0]
    mine = [pair for pair in analysis.pairs if pair.first == best.label]
    beaten = sum(pair.verdict == "better" for pair in mine)
    return (
        f"{best.label} has the highest interquartile mean, {cell(best.iqm.value)} "
        f"{interval(best.iqm)}. It is {_adjectives(analysis)[0]} {beaten or 'none'} of the "
        f"{len(analysis.rows) - 1} others{'' if beaten == len(mine) else ' beyond doubt'}."
    )


def _sentence(analysis: Analysis, pair: PairRow) -> str:
    difference, probability = pair.contrast.difference, pair.contrast.probability
    numbers = (
        f"difference of interquartile means {signed(difference.value)} {interval(difference)}, "
        f"probability of improvement {probability.value:.2f} "
        f"[{probability.interval[0]:.2f}, {probability.interval[1]:.2f}], {_p(pair, analysis)}"
    )
    better, worse = _adjectives(analysis)
    if pair.verdict == "undecided":
        return f"Undecided: {pair.first} against {pair.second}: {numbers}. {_too_few(pair)}"
    word = better if pair.verdict == "better" else worse
    return f"{pair.first} is {word} {pair.second}: {numbers}."


def _p(pair: PairRow, analysis: Analysis) -> str:
    value = _small(pair.adjusted_p)
    value = f"p {value}" if value.startswith("<") else f"p = {value}"
    if analysis.comparisons == 1:
        return value
    return f"{value} (Holm, {analysis.comparisons} comparisons)"


def _small(p: float) -> str:
    """A p value; beyond three decimals nobody should read it."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def _too_few(pair: PairRow) -> str:
    """Why nothing is claimed, and how many seeds might change that."""
    parts = []
    if pair.smallest_p > 0.05:
        parts.append(
            f"{pair.seeds[0]} against {pair.seeds[1]} seeds are too few to conclude anything: even "
            f"if all of one were above all of the other, p would be {pair.smallest_p:.2g}."
        )
    if not np.isfinite(pair.needed):
        if min(pair.seeds) < 2:
            parts.append("How many would be needed cannot be told from single seeds.")
        else:
            parts.append("There is no difference to look for.")
    elif pair.needed > MOST_RUNS:
        parts.append(
            f"If the true difference is the observed one, more than {MOST_RUNS:,} seeds a group "
            "would be needed to see it: it hardly matters."
        )
    else:
        parts.append(
            f"If the true difference is the observed one, about {pair.needed:.0f} seeds a group "
            "would show it with 80% probability."
        )
    return " ".join(parts)


def tables(analysis: Analysis) -> list[Table]:
    """All tables, the most important first; those without rows are left out."""
    found = [
        _groups(analysis), _pairs(analysis), _tasks(analysis), _paired(analysis),
        _efficiency(analysis), _effects(analysis), _sources(analysis),
    ]  # fmt: skip
    return [table for table in found if table.rows]


def _groups(analysis: Analysis) -> Table:
    order = sorted(analysis.rows, key=lambda row: -row.iqm.value)
    optimum = ", ".join(cell(value) for value in analysis.optimum.values())
    several = len(analysis.optimum) > 1
    return Table(
        f"Groups: {what(analysis)}",
        ["group", "seeds", "IQM", "95% interval", "mean", "std", "optimality gap", "gap 95%"],
        [
            [
                row.label, row.seeds, row.iqm.value, row.iqm.interval, row.mean, row.std,
                row.gap.value, row.gap.interval,
            ]
            for row in order
        ],
        note="IQM: mean of the middle half of the seeds. Intervals: stratified bootstrap. "
        f"Optimality gap: mean distance below {optimum} ({analysis.optimum_is})."
        + (" Scaled to 0 to 1 on each task." if several else ""),
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
        + ". A verdict needs p below 0.05 and an interval that excludes 0. Seeds needed: of each "
        "group, for 80% power at the observed difference and spread.",
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
        else "90% of the way from the lowest to the highest middle curve"
    )  # fmt: skip

    def point(value: float | None) -> str:
        return "never" if value is None else cell(round(value, 3))

    return Table(
        f"{AXES[analysis.selection.axis].capitalize()} to reach {', '.join(levels)}",
        [*(["task"] * several), "group", "IQM reaches it at", "95% interval", "seeds that do"],
        [
            [
                *([row.task] * several), row.label, point(row.reached_at),
                f"[{point(row.interval[0])}, {point(row.interval[1])}]",
                f"{row.seeds_that_reach} of {row.seeds}",
            ]
            for row in analysis.efficiency
        ],
        note=f"The threshold is {chosen}; --threshold names another. A single "
        "seed reaches it with any one point of its curve.",
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


def interval(estimate: Estimate) -> str:
    """An interval as text."""
    return cell(estimate.interval)


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
