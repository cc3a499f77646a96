"""Formulas trained, tuned and judged by the protocol that judges what they are formulas of."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo import statistics
from metaevo.agents.task import Parts
from metaevo.agents.train_learner import Normalisation
from metaevo.components import formula
from metaevo.components.formulas import HAND_WRITTEN
from metaevo.components.parts import Part, of_key
from metaevo.distill.regression import Formula
from metaevo.held_out.comparison import Comparison, Entry
from metaevo.held_out.entries import entries_of
from metaevo.held_out.evaluation import LEARNED
from metaevo.held_out.protocol import contender_maker, task_of
from metaevo.held_out.settings import JudgedSettings
from metaevo.runs.progress import Progress


def name_of(each: Formula) -> str:
    """Return what a formula is called in comparisons."""
    return f"formula of {each.length}"


def judge(
    settings: JudgedSettings,
    parts: Parts,
    part: Part,
    meta_params: Any,
    formulas: Sequence[Formula],
    path: Path,
    *,
    normalisation: Normalisation | None,
    check_stop: Callable[[], None],
) -> dict[str, Any]:
    """Compare formulas with what they are formulas of, and both with hand-written functions.

    All are tuned over the same settings and seeds, and meet on the same held-out seeds.

    Args:
        settings: of the comparison.
        parts: what was evolved, and the environments.
        part: whose place the formulas take.
        meta_params: that were found.
        formulas: of different lengths.
        path: of the directory that keeps the tuning of an interrupted comparison.
        normalisation: of several environments.
        check_stop: raises if the run is to stop.

    Returns:
        `formulas`, `learned` and `hand_written`, each with `iqm`, `interval` and `scores` of the
        tuned variant and `untuned` of the other; formulas with the verdicts `against_learned` and
        `against_best`, `learned` with the latter.
    """
    contender = contender_maker(settings, parts)
    all_entries = entries_of(settings, parts, {LEARNED: meta_params}, contender)
    learned = all_entries.pop(LEARNED)
    entries = {LEARNED: learned}
    for each in formulas:
        component = formula.make(each.config)
        functions = {
            slot: of_key("found", function) for slot, function in parts.evolved.functions().items()
        }
        functions[part.slot.name] = of_key("formula", component.apply)
        both = {"found": meta_params, "formula": component.init(jax.random.key(0))}
        entries[name_of(each)] = Entry(contender(functions, both), both, learned.space)
    comparison = Comparison(
        entries | all_entries,
        settings.evaluation,
        seed=settings.run.seed,
        evolution_frames=0,
        normalisation=normalisation,
        context=f"{task_of(settings)} {[each.config for each in formulas]}",
        learned=len(entries),
    )
    with Progress(total=comparison.frames, desc="judging", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        result, _ = comparison.run(path / "tuning", progress, bar.stage)
    return _summary(result, part, formulas, learned.meta_params)


def _summary(
    result: Mapping[str, Any], part: Part, formulas: Sequence[Formula], meta_params: Any
) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    for row in result["variants"]:  # of every function the untuned one first, if there is one
        kept = {key: row[key] for key in ("settings", "seeds", "scores", "iqm", "interval")}
        kept |= {"diverged": row["diverged"], "tuned": bool(row["tuning_frames"])}
        before = rows.get(row["function"])
        untuned = before and {key: before[key] for key in ("iqm", "interval", "diverged")}
        rows[row["function"]] = kept | {"untuned": untuned}
    judged = result.get("evolutions") or [result["against_best"]]
    against_best = {each["learned"].partition(" (")[0]: each for each in judged}
    learned = rows[LEARNED] | {
        "numbers": sum(np.size(leaf) for leaf in jax.tree.leaves(meta_params)),
        "against_best": against_best[LEARNED],
    }
    found = []
    for each in formulas:
        row = rows[name_of(each)]
        compared = statistics.compare(np.asarray(row["scores"]), np.asarray(learned["scores"]))
        found.append(
            {
                "name": name_of(each),
                "length": each.length,
                "error": each.error,
                "text": each.config.parsed.text(each.config.constants),
                "expression": each.config.expression,
                "constants": each.config.constants,
                "gives": each.config.gives,
                **row,
                "against_learned": compared._asdict(),
                "against_best": against_best[name_of(each)],
            }
        )
    known = HAND_WRITTEN.get(part.slot.name, {})
    others = [
        {"name": name, "length": known[name].parsed.length if name in known else None, **row}
        for name, row in rows.items()
        if name != LEARNED and name not in {each["name"] for each in found}
    ]
    return {
        "formulas": found,
        "learned": learned,
        "hand_written": others,
        "best_hand_written": result["best_hand_written"],
        "tuning_rounds": result["tuning_rounds"],
    }
