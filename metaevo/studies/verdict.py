"""What a held-out comparison found, in words and tables.

The comparison is the content of evaluation.json, of this version or of an earlier one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from metaevo.reports import page
from metaevo.reports.numbers import estimate, number
from metaevo.reports.plots import is_learned

FEW = 12
"""Evolved numbers are listed up to so many."""


class Outcome(NamedTuple):
    """The verdict on what was evolved, against the strongest hand-written contender."""

    conclusion: Literal["better", "worse", "undecided"]
    difference: str
    """with its interval: "+4.2 [+1.0, +7.3]" """
    sentence: str
    """who was compared, and how sure the verdict is"""
    budget: str
    """how much each of the two was tuned"""


def outcome(result: Mapping[str, Any]) -> Outcome:
    """Return the verdict of a comparison."""
    rows = {row["name"]: row for row in result["variants"]}
    learned, best = rows[result["learned"]], rows[result["best_hand_written"]]
    pair = result.get("against_best")  # which comparisons of earlier versions do not have
    if pair is None:
        pair = next(each for each in result["pairs"] if each["other"] == best["name"])
    where = ""
    if "tasks" in result:
        where = f" on each of {len(_scaled(result))} unseen tasks, normalised"
    sentence = (
        f"{short(learned['name'])} {number(learned['iqm'])}, "
        f"{short(best['name'])} {number(best['iqm'])}, the best hand-written one "
        f"(interquartile mean over {learned['seeds']} held-out seeds{where}); "
        f"{page.difference(pair)}. Probability of improvement "
        f"{pair['probability_of_improvement']:.0%}."
    )
    difference = estimate(pair["difference"], *pair["difference_interval"], sign=True)
    return Outcome(pair["conclusion"], difference, sentence, _budget(result, learned, best))


def conclusion_text(result: Mapping[str, Any]) -> str:
    """Say in words who won, by how much, and how sure that is."""
    found = outcome(result)
    return f"{found.conclusion.capitalize()}: {found.sentence} {found.budget}"


def short(name: str) -> str:
    """The contender of a variant: "squared" of "squared (tuned)"."""
    return name.split(" (")[0]


def _budget(result: Mapping[str, Any], learned: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """How much the two were tuned; in comparisons of earlier versions an untuned one may win."""
    if "budget" in result:  # a study may say it itself
        return str(result["budget"])
    tuned = [row for row in (learned, best) if row["tuning_frames"]]
    if not tuned:
        return "Neither was tuned: both have the run's hyperparameters."
    frames = tuned[0]["tuning_frames"]
    if result.get("tuning_rounds"):
        finalists, seeds = result["tuning_rounds"][-1]
        how = (
            f"by a race of {result['tuning_settings']} settings, the untuned one among them, the "
            f"last {finalists} on {seeds} fresh seeds ({frames:,} frames)"
        )
    else:
        how = (
            f"over {result['tuning_settings']} settings x {result['tuning_seeds']} seeds "
            f"({frames:,} frames)"
        )
    if len(tuned) == 2:
        return f"Each was tuned {how}."
    if "tasks" in result:
        how = how.replace("frames)", "frames in all)")
        return (
            f"{short(learned['name'])} has the run's hyperparameters on every task; "
            f"{short(best['name'])} was tuned on each of them {how}."
        )
    names = [short(row["name"]) for row in (learned, best)]
    who, other = names if tuned[0] is learned else names[::-1]
    return f"{who} was tuned {how}; {other} is strongest with the run's hyperparameters."


def _scaled(unseen: Mapping[str, Any]) -> list[str]:
    """The tasks over which unseen ones are pooled."""
    return [name for name in unseen["tasks"] if name not in unseen["without_scale"]]


def contenders(result: Mapping[str, Any]) -> page.Table:
    """Return a table of all variants."""
    pairs = {pair["other"]: pair for pair in result["pairs"]}
    diverged = any(row["diverged"] for row in result["variants"])
    rows = []
    for row in result["variants"]:
        pair = pairs.get(row["name"])
        improvement = ""
        if pair is not None:
            probability = pair["probability_of_improvement"]
            improvement = estimate(probability, *pair["probability_interval"], decimals=2)
        cells = [row["name"], row["iqm"], row["interval"], improvement]
        rows.append(cells + [row["diverged"]] * diverged)
    columns = ["variant", "IQM", "95% interval", "P(learned is better)"] + ["diverged"] * diverged
    note = (
        f"IQM: interquartile mean. P(learned is better): probability that {result['learned']} "
        "scores higher than this variant, with its 95% interval."
    )
    highlight = [i for i, row in enumerate(result["variants"]) if is_learned(row["name"])]
    return page.Table("Held-out comparison", columns, rows, note=note, highlight=highlight)


def tuned_settings(result: Mapping[str, Any]) -> list[page.Table]:
    """Return a table of what every contender was tuned to; none if none was."""
    rows = []
    for row in result["variants"]:
        if row["tuning_frames"]:
            settings = ", ".join(
                f"{key}={'inf' if value is None else f'{value:.4g}'}"  # JSON holds no infinity
                for key, value in row["settings"].items()
            )
            rows.append([short(row["name"]), settings or "the run's", row["tuning_frames"]])
    columns = ["contender", "tuned to", "frames of tuning"]
    return [page.Table("Tuned settings", columns, rows)] if rows else []


def evolved_numbers(meta_params: Any, most: int = FEW) -> dict[str, float]:
    """Return what was evolved as numbers by their names; nothing where there are many.

    Args:
        meta_params: any tree of arrays.
        most: numbers; nothing is returned if there are more.
    """
    leaves = jax.tree_util.tree_leaves_with_path(meta_params)
    arrays = [(jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf))
              for path, leaf in leaves]  # fmt: skip
    real = all(np.issubdtype(each.dtype, np.number) for _, each in arrays)
    if not real or not 0 < sum(each.size for _, each in arrays) <= most:
        return {}
    return {
        name + _place(index): float(value)
        for name, array in arrays
        for index, value in np.ndenumerate(array)
    }


def _place(index: Sequence[int]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def numbers_text(numbers: Mapping[str, float]) -> str:
    """The evolved numbers in one line."""
    listed = ", ".join(f"{name or 'its number'} = {value:.4g}" for name, value in numbers.items())
    return f"Evolved: {listed}."
