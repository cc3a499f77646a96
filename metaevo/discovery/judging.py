"""Evaluate formulas with the same protocol as the learned part."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison.protocol import comparison_of
from metaevo.config.plain import PlainDict
from metaevo.discovery.regression import Fitted
from metaevo.parts import formula
from metaevo.parts.part import LEARNED, Filling, Part
from metaevo.runs.progress import Progress
from metaevo.studies import verdict
from metaevo.tasks.binding import Experiment
from purerl.types import MetaParams


class Candidate(NamedTuple):
    """A replacement for the learned part, and its description."""

    name: str
    """what it is called in comparisons"""
    replacement: Filling
    about: PlainDict
    """entries of its row: `name`, `length`, `error`, ..."""


def as_candidate(each: Fitted) -> Candidate:
    """Return a formula as a candidate."""
    part = each.part
    name = f"formula of {each.length}"
    about = {
        "name": name,
        "length": each.length,
        "error": each.error,
        "text": part.written(part.constants),
        "expression": part.expression,
        "constants": part.constants,
        "gives": part.gives,
    }
    return Candidate(name, Filling(part, part.init(jax.random.key(0))), about)


def judge(
    experiment: Experiment,
    part: Part,
    meta_params: MetaParams,
    candidates: Sequence[Candidate],
    path: Path,
    *,
    check_stop: Callable[[], None],
) -> PlainDict:
    """Compare candidates with the learned part, and both with hand-written functions.

    All are tuned over the same settings and seeds, and meet on the same held-out seeds.

    `path` keeps the tuning of an interrupted comparison.

    Returns:
        `formulas`, `learned` and `hand_written`, each with `iqm`, `interval` and
        `scores` of the tuned variant and `untuned` of the other; candidates with the verdicts
        `against_learned` and `against_best`, `learned` with the latter.
    """
    comparison = comparison_of(
        experiment,
        {LEARNED: meta_params},
        replacements={each.name: each.replacement for each in candidates},
    )
    with Progress(
        total=comparison.frames,
        desc="judging",
        unit="frame",
        unit_scale=True,
        check_stop=check_stop,
    ) as bar:
        result, _ = comparison.run(path / "tuning", bar.update, bar.stage)
    rows: dict[str, PlainDict] = {}
    for row in result["variants"]:  # the untuned row of each function comes first, if any
        kept = {key: row[key] for key in ("settings", "seeds", "scores", "iqm", "interval")}
        kept |= {"diverged": row["diverged"], "tuned": bool(row["tuning_frames"])}
        before = rows.get(row["function"])
        untuned = before and {key: before[key] for key in ("iqm", "interval", "diverged")}
        rows[row["function"]] = kept | {"untuned": untuned}
    against_best = verdict.judgements(result)
    learned = rows[LEARNED] | {
        "numbers": sum(np.size(leaf) for leaf in jax.tree.leaves(meta_params)),
        "against_best": against_best[LEARNED],
    }
    found = {}
    for each in candidates:
        own = rows[each.name]
        compared = statistics.compare(np.asarray(own["scores"]), np.asarray(learned["scores"]))
        found[each.name] = {
            **each.about,
            **own,
            "against_learned": compared._asdict(),
            "against_best": against_best[each.name],
        }
    known = formula.HAND_WRITTEN.get(part.slot, {})
    others = [
        {"name": name, "length": known[name].length if name in known else None, **row}
        for name, row in rows.items()
        if name != LEARNED and name not in found
    ]
    return {
        "formulas": list(found.values()),
        "learned": learned,
        "hand_written": others,
        "best_hand_written": result["best_hand_written"],
        "tuning_rounds": result["tuning_rounds"],
    }
