"""What was found on unseen tasks, in a table, figures and words.

Its content is the key `unseen` of evaluation.json: see `metaevo.comparison.unseen.aggregate`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from metaevo import statistics
from metaevo.components.component import LEARNED
from metaevo.reports import layout, page, score_plots
from metaevo.reports.numbers import estimate
from metaevo.studies import verdict

PREFIX = "unseen"
"""of the figures' names"""
CAPTION = (
    "{where}: interquartile mean on fresh seeds with 95% bootstrap intervals, what was found "
    "untuned, hand-written contenders tuned there; and differences from the strongest of them."
)


def table(unseen: Mapping[str, Any]) -> page.Table:
    """Return tasks against contenders; the last row is that of all tasks, normalised.

    Of several evolutions their mean is shown, with the evolution as the unit.
    """
    results = dict(unseen["tasks"])
    if "variants" in unseen:
        results["all, normalised"] = unseen
    rows = []
    for name, result in results.items():
        shown = _shown(result)
        cells = [estimate(each["iqm"], *each["interval"]) for each in shown]
        best = verdict.short(result["best_hand_written"])
        rows.append([name, *cells, f"{_verdict(result)} against {best}"])
    first = next(iter(results.values()))
    names = [each["name"].replace("same hyperparameters", "untuned") for each in _shown(first)]
    note = (
        "Interquartile mean with its 95% interval. Normalised: 0 is random play, 1 the tuned "
        f"{verdict.short(_reference(first))}."
    )
    if "together" in first:
        note += " Learned: the mean over evolutions; its intervals take the evolution as the unit."
    if unseen["without_scale"]:
        note += (
            f" Left out of all: {', '.join(unseen['without_scale'])}, where that is not better "
            "than random play."
        )
    last = [len(rows) - 1] if "variants" in unseen else None
    return page.Table("Unseen tasks", ["task", *names, "verdict"], rows, note=note, highlight=last)


def _shown(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The variants of a task; of several evolutions their mean alone."""
    if "together" not in result:
        return list(result["variants"])
    found = result["together"]
    name = f"{LEARNED} (untuned, {found['evolutions']} evolutions)"
    own = {each["learned"] for each in result["evolutions"]}
    mean = {"name": name, "iqm": found["iqm"], "interval": found["interval"]}
    return [mean, *(row for row in result["variants"] if row["name"] not in own)]


def _verdict(result: Mapping[str, Any]) -> str:
    if "together" not in result:
        return f"{result['conclusion']}: {verdict.outcome(result).difference}"
    found = result["together"]
    difference = estimate(found["difference"], *found["difference_interval"], sign=True)
    count = f"better in {found['better']} of {found['evolutions']}"
    return f"{found['conclusion']}, {count}: {difference}"


def conclusion_text(unseen: Mapping[str, Any]) -> str:
    """Say in words who won over all tasks."""
    if "variants" not in unseen:
        return (
            f"No verdict on unseen tasks: on none of {', '.join(unseen['tasks'])} is the tuned "
            "reference better than random play."
        )
    return (
        f"On unseen tasks {verdict.conclusion_text(unseen)[0].lower()}"
        + (verdict.conclusion_text(unseen)[1:])
    )


def banner(unseen: Mapping[str, Any]) -> layout.Banner:
    """Return the verdict over all tasks as a report shows it first."""
    if "variants" not in unseen:
        return layout.Banner("undecided", "UNSEEN TASKS", "", [conclusion_text(unseen)])
    told = verdict.outcome(unseen)
    against = f"{told.difference} against {verdict.short(unseen['best_hand_written'])}"
    word = f"{told.conclusion.upper()} ON UNSEEN TASKS"
    return layout.Banner(told.conclusion, word, against, [told.sentence, told.budget])


def folded(unseen: Mapping[str, Any]) -> layout.Folded:
    """Return what contenders were tuned to on each task."""
    tables = [
        replace(each, heading=name)
        for name, result in unseen["tasks"].items()
        for each in verdict.tuned_settings(result)
    ]
    return layout.Folded("Tuned settings on unseen tasks", tables)


def draw(unseen: Mapping[str, Any], figures: Path) -> dict[str, str]:
    """Draw the intervals of every task and of all; return the captions by file names."""
    captions = {}
    for name, result in {"": unseen, **unseen["tasks"]}.items():
        if "variants" not in result:
            continue
        path = figures / (f"{PREFIX}_{name}.png" if name else f"{PREFIX}.png")
        draw_scores(result, path, "fitness" if name else "normalised fitness")
        captions[path.name] = CAPTION.format(where=name or "All unseen tasks, normalised")
    return captions


def draw_scores(result: Mapping[str, Any], path: Path, xlabel: str) -> None:
    """Draw the variants of a comparison, and how far they are from the best hand-written one."""
    pairs = {pair["other"]: pair for pair in result["pairs"]}
    rows = {row["name"]: row for row in result["variants"]}
    best, learned = result["best_hand_written"], result["learned"]
    judged = {learned: result.get("against_best", pairs[best])}
    judged |= {each["learned"]: each for each in result.get("evolutions", [])}
    differences = {}
    for name, row in rows.items():
        if name in judged:
            this = judged[name]
            differences[name] = (this["difference"], this["difference_interval"])
        elif name != best:
            compared = statistics.compare(row["scores"], rows[best]["scores"], shared_seeds=True)
            differences[name] = (compared.difference, compared.difference_interval)
    score_plots.plot_scores(
        [{**row, "tuned": bool(row["tuning_frames"])} for row in result["variants"]],
        path,
        xlabel=f"{xlabel} on held-out seeds, IQM",
        differences=differences,
        learned=learned,
        reference=best,
    )


def _reference(result: Mapping[str, Any]) -> str:
    """The first hand-written contender."""
    found = {each["learned"] for each in result.get("evolutions", [])} | {result["learned"]}
    own = {row["function"] for row in result["variants"] if row["name"] in found}
    return next(row["function"] for row in result["variants"] if row["function"] not in own)
