"""Results of a held-out comparison, in words and tables.

The comparison is the content of evaluation.json.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import numpy as np

from metaevo.reports import page
from metaevo.reports.numbers import estimate, number
from metaevo.reports.plots import is_learned
from metaevo.runs.schema import HeldOut, Variant
from purerl.types import MetaParams

FEW = 12
"""Maximum count of evolved numbers that are listed."""


class Outcome(NamedTuple):
    """Verdict on the evolved variant, compared with the strongest hand-written contender."""

    conclusion: Literal["better", "worse", "undecided"]
    difference: str
    """the difference with its interval: "+4.2 [+1.0, +7.3]" """
    sentence: str
    """the compared variants, and how certain the verdict is"""
    budget: str
    """how much each of the two was tuned"""


def outcome(result: HeldOut, tasks: str = "") -> Outcome:
    """Return the verdict of a comparison.

    Args:
        result: the comparison.
        tasks: which tasks it pools, such as "5 unseen tasks"; empty if it pools none.
    """
    learned = row_of(result, result["learned"])
    best = row_of(result, result["best_hand_written"])
    pair = result["against_best"]
    where = f" on each of {tasks}, normalised" if tasks else ""
    sentence = (
        f"{learned['function']} {number(learned['iqm'])}, "
        f"{best['function']} {number(best['iqm'])}, the best hand-written one "
        f"(interquartile mean over {learned['seeds']} held-out seeds{where}); "
        f"{page.difference(pair)}. Probability of improvement "
        f"{pair['probability_of_improvement']:.0%}."
    )
    difference = estimate(pair["difference"], *pair["difference_interval"], sign=True)
    budget = _budget(result, learned, best, pooled=bool(tasks))
    return Outcome(pair["conclusion"], difference, sentence, budget)


def conclusion_text(result: HeldOut, tasks: str = "") -> str:
    """Return the verdict as a paragraph; arguments as for `outcome`."""
    found = outcome(result, tasks)
    return f"{found.conclusion.capitalize()}: {found.sentence} {found.budget}"


def best_function(result: HeldOut) -> str:
    """Return the name of the best hand-written function."""
    return row_of(result, result["best_hand_written"])["function"]


def row_of(result: HeldOut, name: str) -> Variant:
    """Return the variant with a name."""
    return next(row for row in result["variants"] if row["name"] == name)


def _budget(result: HeldOut, learned: Variant, best: Variant, *, pooled: bool) -> str:
    """Describe the tuning of the two variants; the best one may be untuned."""
    if "budget" in result:  # from the study
        return result["budget"]
    tuned = [row for row in (learned, best) if row["tuning_frames"]]
    if not tuned:
        return "Neither was tuned: both have the run's hyperparameters."
    finalists, seeds = result["tuning_rounds"][-1]
    how = (
        f"by a race of {result['tuning_settings']} settings, the untuned one among them, the "
        f"last {finalists} on {seeds} fresh seeds ({tuned[0]['tuning_frames']:,} frames"
    )
    if len(tuned) == 2:
        return f"Each was tuned {how})."
    names = [learned["function"], best["function"]]
    if pooled:
        return (
            f"{names[0]} has the run's hyperparameters on every task; {names[1]} was tuned on each "
            f"of them {how} in all)."
        )
    who, other = names if tuned[0] is learned else names[::-1]
    return f"{who} was tuned {how}); {other} is strongest with the run's hyperparameters."


def contenders(result: HeldOut) -> page.Table:
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


def tuned_settings(result: HeldOut) -> list[page.Table]:
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
    return [page.Table("Tuned settings", columns, rows)] if rows else []


def evolved_numbers(meta_params: MetaParams, most: int = FEW) -> dict[str, float]:
    """Return the evolved numbers by name, if there are only a few.

    Args:
        meta_params: any tree of arrays.
        most: maximum count of numbers; with more, the result is empty.
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
    """Return the evolved numbers in one line."""
    listed = ", ".join(f"{name or 'its number'} = {value:.4g}" for name, value in numbers.items())
    return f"Evolved: {listed}."
