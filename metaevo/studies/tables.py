"""Tables and figures of a held-out comparison."""

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from metaevo import statistics
from metaevo.config.plain import PlainMapping
from metaevo.parts.part import LEARNED
from metaevo.reports import layout, page, score_plots
from metaevo.reports.numbers import estimate, score_text
from metaevo.reports.plots import is_learned
from metaevo.runs.schema import HeldOut, Unseen, pooled
from metaevo.studies import verdict
from purerl.types import MetaParams

FEW = 12
"""Maximum count of evolved numbers that are listed."""
CAPTION = (
    "{where}: interquartile mean on fresh seeds with 95% bootstrap intervals; hand-written "
    "contenders are tuned there. And differences from the strongest of them."
)


def contenders(result: HeldOut) -> page.Table:
    """Return a table of all variants, except those of other evolutions than the best one."""
    shown = verdict.row_of(result, result["learned"])["function"]
    others = verdict.judgements(result).keys() - {shown}
    rows = [row for row in result["variants"] if row["function"] not in others]
    pairs = {
        pair["other"]: pair for pair in result["pairs"] if pair["learned"] == result["learned"]
    }
    diverged = any(row["diverged"] for row in rows)
    lines = []
    for row in rows:
        pair = pairs.get(row["name"])
        improvement = ""
        if pair is not None:
            probability = pair["probability_of_improvement"]
            improvement = estimate(probability, *pair["probability_interval"], decimals=2)
        cells = [row["name"], row["iqm"], row["interval"], improvement]
        lines.append(cells + [row["diverged"]] * diverged)
    columns = ["variant", "IQM", "95% interval", "P(learned is better)"] + ["diverged"] * diverged
    note = (
        f"IQM: interquartile mean. P(learned is better): probability that {result['learned']} "
        "scores higher than this variant, with its 95% interval."
    )
    highlight = [i for i, row in enumerate(rows) if is_learned(row["name"])]
    heading = f"Held-out comparison of {shown}" if others else "Held-out comparison"
    return page.Table(heading, columns, lines, note=note, highlight=highlight)


def tuned_settings(result: HeldOut, heading: str = "Tuned settings") -> list[page.Table]:
    """Return a table of the contenders' tuned settings; an empty list if none was tuned."""
    rows = []
    for row in result["variants"]:
        if row["tuning_frames"]:
            settings = ", ".join(
                f"{key}={'inf' if value is None else f'{value:.4g}'}"  # JSON holds no infinity
                for key, value in row["settings"].items()
            )
            rows.append([row["function"], settings or "the run's", row["tuning_frames"]])
    columns = ["contender", "tuned to", "frames of tuning"]
    return [page.Table(heading, columns, rows)] if rows else []


def tuned_settings_by_task(judged: Unseen, kind: str) -> layout.Folded:
    """Return the tuned settings of all contenders on each of several tasks, folded."""
    tables = [
        table
        for name, result in judged["tasks"].items()
        for table in tuned_settings(result, heading=name)
    ]
    return layout.Folded(f"Tuned settings on {kind}", tables)


def by_task(judged: Unseen, heading: str, *, is_unseen: bool) -> page.Table:
    """Return the scores of contenders by task; the last row pools all tasks, normalised.

    With several evolutions it shows their mean, with the evolution as the unit. A rule can be "not
    worse" over all tasks that it has not seen.
    """
    results: dict[str, HeldOut] = {**judged["tasks"]}
    if everything := pooled(judged):
        results["all, normalised"] = everything
    rows = []
    for name, result in results.items():
        scores = map(score_text, _shown(result))
        word: str = verdict.judgement(result)["conclusion"]
        if is_unseen and result is everything:
            word = verdict.word_of(everything)
        rows.append([name, *scores, _verdict(result, word)])
    first = next(iter(results.values()))
    names = [row["name"].replace("same hyperparameters", "untuned") for row in _shown(first)]
    note = (
        "Interquartile mean, which leaves out outliers, with its 95% interval. Normalised: 0 is "
        f"the mean of random play, 1 of the tuned {_reference(first)}, on other seeds. A verdict "
        "needs the interval and a rank test."
    )
    if "together" in first:
        note += " Learned: the mean over evolutions; its intervals take the evolution as the unit."
    if judged["without_scale"]:
        note += (
            f" Left out of all: {', '.join(judged['without_scale'])}, where the tuned "
            f"{_reference(first)} is not better than random play."
        )
    last = [len(rows) - 1] if everything else []
    return page.Table(heading, ["task", *names, "verdict"], rows, note=note, highlight=last)


def _shown(result: HeldOut) -> Sequence[PlainMapping]:
    """Return the rows of all variants; of several evolutions, their mean."""
    rows = result["variants"]
    if "together" not in result:
        return rows
    found = result["together"]
    how = "tuned" if verdict.row_of(result, result["learned"])["tuning_frames"] else "untuned"
    mean = {**found, "name": f"{LEARNED} ({how}, {found['evolutions']} evolutions)"}
    own = {each["learned"] for each in result["evolutions"]}
    return [mean, *(row for row in rows if row["name"] not in own)]


def _verdict(result: HeldOut, word: str) -> str:
    count = ""
    if "together" in result:
        found = result["together"]
        count = f", better in {found['better']} of {found['evolutions']}"
    return f"{word}{count}: {verdict.against(result)}"


def _reference(result: HeldOut) -> str:
    own = verdict.judgements(result)
    return next(row["function"] for row in result["variants"] if row["function"] not in own)


def draw_tasks(unseen: Unseen, figures: Path) -> dict[str, str]:
    """Draw the scores on every unseen task and on all; return the captions by file name."""
    captions = {}
    results: dict[str, HeldOut] = {**unseen["tasks"]}
    if everything := pooled(unseen):
        results[""] = everything
    for name, result in results.items():
        path = figures / (f"unseen_{name}.png" if name else "unseen.png")
        draw_scores(result, path, "fitness" if name else "normalised fitness")
        captions[path.name] = CAPTION.format(where=name or "All unseen tasks, normalised")
    return captions


def draw_scores(result: HeldOut, path: Path, xlabel: str) -> None:
    """Draw the variants of a comparison, and their differences from the best hand-written one.

    With several evolutions, their mean is drawn too, and of the hand-written variants only the
    tuned ones.
    """
    best = verdict.row_of(result, result["best_hand_written"])
    judged = {each["learned"]: each for each in verdict.judgements(result).values()}
    rows: Sequence[PlainMapping] = result["variants"]
    pairs: dict[str, PlainMapping] = {**judged}
    learned = result["learned"]
    if "together" in result:
        learned = f"{LEARNED} (all evolutions)"
        rows = _with_mean(result, list(judged), learned)
        pairs[learned] = result["together"]
    else:
        for row in rows:
            if row["name"] not in (learned, best["name"]):
                compared = statistics.compare(row["scores"], best["scores"], shared_seeds=True)
                pairs[row["name"]] = compared._asdict()
    score_plots.plot_scores(
        rows,
        path,
        xlabel=f"{xlabel} on held-out seeds, IQM",
        pairs=pairs,
        learned=learned,
        reference=best["name"],
    )


def _with_mean(result: HeldOut, evolutions: Sequence[str], name: str) -> list[PlainMapping]:
    """Return the rows of the evolutions, their mean with a name, and the tuned contenders."""
    own = verdict.judgements(result)
    any_tuned = any(row["tuning_frames"] for row in result["variants"])
    learned = [verdict.row_of(result, each) for each in evolutions]
    others = [
        row
        for row in result["variants"]
        if row["function"] not in own and (row["tuning_frames"] or not any_tuned)
    ]
    frames = sum(row["tuning_frames"] for row in learned)
    mean = {**result["together"], "name": name, "tuning_frames": frames}
    return [*learned, mean, *others]


def evolved_numbers(meta_params: MetaParams, most: int = FEW) -> dict[str, float]:
    """Return the numbers in a tree of arrays by name; none if there are more than `most`."""
    leaves = jax.tree_util.tree_leaves_with_path(meta_params)
    arrays = [(jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf))
              for path, leaf in leaves]  # fmt: skip
    real = all(np.issubdtype(each.dtype, np.number) for _, each in arrays)
    if not real or not 0 < sum(each.size for _, each in arrays) <= most:
        return {}
    return {
        name + (f"[{', '.join(map(str, index))}]" if index else ""): float(value)
        for name, array in arrays
        for index, value in np.ndenumerate(array)
    }
