"""Results on several tasks, in a table, figures and words.

Its content is the keys `seen` and `unseen` of evaluation.json: see
`metaevo.comparison.unseen.aggregate`.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

from metaevo import statistics
from metaevo.components.component import LEARNED
from metaevo.reports import layout, page, score_plots
from metaevo.reports.numbers import estimate
from metaevo.runs.schema import HeldOut, Judgement, Together, Unseen, Variant, pooled
from metaevo.studies import verdict

PREFIX = "unseen"
"""Prefix of the figures' names."""
CAPTION = (
    "{where}: interquartile mean on fresh seeds with 95% bootstrap intervals, what was found "
    "untuned, hand-written contenders tuned there; and differences from the strongest of them."
)


def pooled_tasks(judged: Unseen, kind: str = "unseen tasks") -> str:
    """Return the number and the kind of the tasks that are pooled."""
    count = len(judged["tasks"]) - len(judged["without_scale"])
    return f"{count} {kind}"


OF_EVOLUTION = "tasks of the evolution"


def tasks_of(result: HeldOut | None) -> str:
    """Return the number and the kind of the tasks that a comparison pools; empty if it does not."""
    seen = result.get("seen") if result else None
    return "" if seen is None else pooled_tasks(seen, OF_EVOLUTION)


def tables_of(result: HeldOut) -> list[page.Table]:
    """Return the tasks of a comparison that pools several, or else the tuned settings."""
    seen = result.get("seen")
    if seen is None:
        return verdict.tuned_settings(result)
    return [table(seen, "Tasks of the evolution")]


def table(unseen: Unseen, heading: str = "Unseen tasks") -> page.Table:
    """Return the scores of contenders by task; the last row pools all tasks, normalised.

    With several evolutions it shows their mean, with the evolution as the unit.
    """
    results: dict[str, HeldOut] = {**unseen["tasks"]}
    if everything := pooled(unseen):
        results["all, normalised"] = everything
    rows = []
    for name, result in results.items():
        cells = [estimate(value, *interval) for _, value, interval in _shown(result)]
        best = verdict.best_function(result)
        rows.append([name, *cells, f"{_verdict(result)} against {best}"])
    first = next(iter(results.values()))
    names = [name.replace("same hyperparameters", "untuned") for name, *_ in _shown(first)]
    note = (
        "Interquartile mean with its 95% interval. Normalised: 0 is random play, 1 the tuned "
        f"{_reference(first)}."
    )
    if "together" in first:
        note += " Learned: the mean over evolutions; its intervals take the evolution as the unit."
    if unseen["without_scale"]:
        note += (
            f" Left out of all: {', '.join(unseen['without_scale'])}, where that is not better "
            "than random play."
        )
    last = [len(rows) - 1] if everything else None
    return page.Table(heading, ["task", *names, "verdict"], rows, note=note, highlight=last)


def _shown(result: HeldOut) -> list[tuple[str, float, list[float]]]:
    """Return name, IQM and interval of each variant, or of the mean of several evolutions."""
    rows = [(row["name"], row["iqm"], row["interval"]) for row in result["variants"]]
    if "together" not in result:
        return rows
    found = result["together"]
    name = f"{LEARNED} (untuned, {found['evolutions']} evolutions)"
    own = {each["learned"] for each in result["evolutions"]}
    return [(name, found["iqm"], found["interval"]), *(row for row in rows if row[0] not in own)]


def _verdict(result: HeldOut) -> str:
    if "together" not in result:
        return f"{result['conclusion']}: {verdict.outcome(result).difference}"
    found = result["together"]
    difference = estimate(found["difference"], *found["difference_interval"], sign=True)
    count = f"better in {found['better']} of {found['evolutions']}"
    return f"{found['conclusion']}, {count}: {difference}"


def conclusion_text(unseen: Unseen) -> str:
    """Return the verdict over all tasks as a paragraph."""
    everything = pooled(unseen)
    if everything is None:
        return (
            f"No verdict on unseen tasks: on none of {', '.join(unseen['tasks'])} is the tuned "
            "reference better than random play."
        )
    text = verdict.conclusion_text(everything, pooled_tasks(unseen))
    return f"On unseen tasks {text[0].lower()}{text[1:]}"


def in_short(result: HeldOut | None, unseen: Unseen | None) -> list[str]:
    """Return a sentence on what was evolved on several tasks: there, and on unseen ones."""
    seen = result.get("seen") if result else None
    if result is None or seen is None or unseen is None or "carried" not in unseen:
        return []
    verdicts = [result.get("together", result["against_best"])["conclusion"], unseen["carried"]]
    tasks = [pooled_tasks(seen, "tasks it was evolved on"), pooled_tasks(unseen, "it never saw")]
    parts = []
    for word, where, judged in zip(verdicts, tasks, (seen, unseen), strict=True):
        found = cast(HeldOut, judged)
        pair = (result if judged is seen else found).get("together", found["against_best"])
        difference = estimate(pair["difference"], *pair["difference_interval"], sign=True)
        parts.append(f"{word} on {where} ({difference} against {verdict.best_function(found)})")
    text = ", ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."]


def banner(unseen: Unseen) -> layout.Banner:
    """Return the verdict over all tasks for the top of a report."""
    everything = pooled(unseen)
    if everything is None:
        return layout.Banner("undecided", "UNSEEN TASKS", "", [conclusion_text(unseen)])
    told = verdict.outcome(everything, pooled_tasks(unseen))
    against = f"{told.difference} against {verdict.best_function(everything)}"
    word = f"{told.conclusion.upper()} ON UNSEEN TASKS"
    return layout.Banner(told.conclusion, word, against, [told.sentence, told.budget])


def folded(unseen: Unseen, tasks: str = "unseen tasks") -> layout.Folded:
    """Return the tuned settings of all contenders on each task."""
    tables = [
        replace(each, heading=name)
        for name, result in unseen["tasks"].items()
        for each in verdict.tuned_settings(result)
    ]
    return layout.Folded(f"Tuned settings on {tasks}", tables)


def draw(unseen: Unseen, figures: Path) -> dict[str, str]:
    """Draw the intervals of every task and of all; return the captions by file name."""
    captions = {}
    results: dict[str, HeldOut] = {**unseen["tasks"]}
    if everything := pooled(unseen):
        results[""] = everything
    for name, result in results.items():
        path = figures / (f"{PREFIX}_{name}.png" if name else f"{PREFIX}.png")
        draw_scores(result, path, "fitness" if name else "normalised fitness")
        captions[path.name] = CAPTION.format(where=name or "All unseen tasks, normalised")
    return captions


def score_row(row: Variant) -> score_plots.ScoreRow:
    """Return a variant for the figure of scores."""
    return score_plots.ScoreRow(
        row["name"], row["iqm"], row["interval"], bool(row["tuning_frames"])
    )


def difference(judged: Judgement | Together) -> score_plots.Difference:
    """Return the difference from the best hand-written variant for the figure of scores."""
    return judged["difference"], judged["difference_interval"]


def draw_scores(result: HeldOut, path: Path, xlabel: str) -> None:
    """Draw the variants of a comparison, and their differences from the best hand-written one."""
    best = verdict.row_of(result, result["best_hand_written"])
    judged = {each["learned"]: each for each in result.get("evolutions", [result["against_best"]])}
    differences = {}
    for row in result["variants"]:
        name = row["name"]
        if name in judged:
            differences[name] = difference(judged[name])
        elif name != best["name"]:
            compared = statistics.compare(row["scores"], best["scores"], shared_seeds=True)
            differences[name] = (compared.difference, compared.difference_interval)
    score_plots.plot_scores(
        [score_row(row) for row in result["variants"]],
        path,
        xlabel=f"{xlabel} on held-out seeds, IQM",
        differences=differences,
        learned=result["learned"],
        reference=best["name"],
    )


def _reference(result: HeldOut) -> str:
    """Return the first hand-written function."""
    judged = result.get("evolutions", [result["against_best"]])
    own = {verdict.row_of(result, each["learned"])["function"] for each in judged}
    return next(row["function"] for row in result["variants"] if row["function"] not in own)
