"""Distill a learned part into formulas, with the results in RUN/distill.

Record trainings that use the learned part, fit formulas of increasing length to its outputs, and
evaluate them by the same protocol as the learned part.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metaevo.comparison.protocol import task_of
from metaevo.config import ConfigError, files, show, to_dict
from metaevo.config.files import write_json_atomic
from metaevo.config.plain import PlainDict
from metaevo.discovery import regression
from metaevo.discovery.judging import Candidate, as_candidate, judge
from metaevo.discovery.records import record, values
from metaevo.discovery.targets import TARGETS
from metaevo.parts import resolve, saved, seen
from metaevo.parts.optimizer import LearnedOptimizer
from metaevo.parts.part import Part, Parts
from metaevo.reports import page
from metaevo.reports.formula_plots import plot_formulas
from metaevo.reports.numbers import difference_text, interval
from metaevo.runs.quick import mark
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.changed import judge_in
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings
from purerl.types import MetaParams

RESULT = "distilled.json"
FIGURE = "score_length.png"


class Search(NamedTuple):
    """Sizes of the search."""

    evaluations: int
    """number of formula evaluations"""
    formulas: int
    """maximum number of formulas to evaluate as candidates"""


def distill(
    before: EvolveSettings,
    settings: EvolveSettings,
    run_dir: Path,
    slot: str | None,
    name: str | None,
    search: Search,
) -> int:
    """Find formulas for an evolved part, and evaluate them.

    Args:
        before: settings of the run; its trainings are recorded.
        settings: of the comparison, which may use another task.
        run_dir: of the run.
        slot: of the part; required if the run evolved several.
        name: of the directory in `run_dir/distill`; by default the slot's.
        search: sizes of the search.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the settings or the directory are invalid.
    """
    regression.require()
    if before.tasks:
        raise ConfigError(f"{run_dir} evolved on several tasks: only rules of one are distilled")
    evolved, meta_params = resolve.parts_of(run_dir)
    part = _part(run_dir, evolved, slot)
    study = LearnerStudy(before, run_dir)
    judged = LearnerStudy(settings, run_dir)
    if settings.evaluation.seeds:
        judged.check()
    run = RunDirectory(run_dir / "distill" / (name or part.slot))

    def work(check_stop: Callable[[], None]) -> None:
        found, candidates = _formulas(run, study, part, meta_params, search, check_stop)
        check_stop()
        for each in candidates:
            _save(run, each, before)
        if settings.evaluation.seeds:
            found |= judge(
                judged.experiment, part, meta_params, candidates, run.path, check_stop=check_stop
            )
        write_json_atomic(run.path / RESULT, found | mark(to_dict(settings)))
        _report(run, part, found, settings)

    return judge_in(run, settings, task_of, {"distill": search._asdict()}, work)


def _part(run_dir: Path, evolved: Parts, slot: str | None) -> Part:
    """Return the part to distill."""
    known = {slot: part for slot, part in evolved.by_slot.items() if slot in TARGETS}
    has = ", ".join(evolved.by_slot)
    if not known:
        raise ConfigError(
            f"{run_dir} has evolved {has}: only losses and optimizers are distilled "
            f"({', '.join(TARGETS)})"
        )
    if slot is None and len(known) > 1:
        raise ConfigError(f"{run_dir} holds several parts: say which one, --slot {'|'.join(known)}")
    if slot is not None and slot not in known:
        raise ConfigError(f"--slot = {show(slot)}: must be one of {', '.join(known)}")
    part = known[slot or next(iter(known))]
    is_network = isinstance(part, LearnedOptimizer) and not part.memory_size
    if part.slot == "make_optimizer" and not is_network:
        raise ConfigError(
            f"{run_dir}: of optimizers, only networks without memory are distilled (optimizer)"
        )
    return part


def _formulas(
    run: RunDirectory,
    study: LearnerStudy,
    part: Part,
    meta_params: MetaParams,
    search: Search,
    check_stop: Callable[[], None],
) -> tuple[PlainDict, list[Candidate]]:
    """Record trainings and search for formulas; return a summary and the candidates."""
    target, seed = TARGETS[part.slot], study.settings.run.seed
    _say("recording trainings")
    records = record(study.experiment, meta_params, part, target, check_stop)
    if len(records.wanted) < 100 or not np.ptp(records.wanted):
        raise ConfigError(
            f"{run.path.parent.parent}: nothing that could be fitted: of {target.what} "
            f"{len(records.wanted)} finite samples in its trainings, or all the same"
        )
    with files.replacing(run.path / "records.npz") as file:
        np.savez(
            file, scalars=records.scalars, progress=records.contexts.progress, wanted=records.wanted
        )
    own = study.evolved.of(meta_params, part.slot)
    of_records = functools.partial(values, target.value_of(part), own)
    inputs = regression.mattering(target, records, of_records, seed)
    _say(f"searching for formulas of {', '.join(inputs)}")
    front = regression.search(
        part.slot, target, records, inputs, seed=seed, evaluations=search.evaluations
    )
    found: PlainDict = {
        "slot": part.slot,
        "part": study.evolved.references[part.slot],
        "samples": len(records.wanted),
        "inputs": list(inputs),
        "front": [as_candidate(each).about for each in front],
    }
    return found, [as_candidate(each) for each in regression.thinned(front, search.formulas)]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _save(run: RunDirectory, each: Candidate, settings: EvolveSettings) -> None:
    """Save a candidate for `metaevo.load` and settings such as `value_loss`."""
    directory = RunDirectory(run.path / each.name.replace(" ", "_"))
    os.makedirs(directory.path, exist_ok=True)
    part, meta_params = each.replacement
    parts = Parts.single(part, "formula")
    saved.save(directory, parts, meta_params, 0, seen.section(to_dict(settings)))


def _report(run: RunDirectory, part: Part, found: PlainDict, settings: EvolveSettings) -> None:
    """Print the results and write report.html."""
    what = TARGETS[part.slot].what
    table = _table(found, what)
    print(f"\n{table.text()}\n")
    first: list[page.Section] = []
    if "learned" in found:
        plot_formulas(
            found["formulas"],
            found["hand_written"],
            found["learned"],
            run.figures / FIGURE,
            ylabel="score on held-out seeds",
        )
        caption = (
            "Interquartile mean on held-out seeds with 95% interval. A length is the "
            "number of numbers, names, operators and functions."
        )
        first.append(page.Image("", run.figures / FIGURE, caption))
    for each in found.get("formulas", []):
        print(f"{each['name']}: {what} = {each['text']}")
    page.write_report(
        run.path / "report.html",
        f"Formulas of {part.slot.replace('_', ' ')} for {settings.learner}",
        f"{found['samples']:,} samples, inputs: {', '.join(found['inputs'])}",
        [*first, table, page.KeyValues("Settings", to_dict(settings))],
    )
    print(f"report: {run.path / 'report.html'}")


def _table(found: PlainDict, what: str) -> page.Table:
    """Return the table of formulas, with their scores if they were evaluated."""
    note = f"Each formula is {what}. error: "
    note += "the share of the variance in trainings that is not explained"
    columns = ["length", "error", "formula"]
    rows: list[list[object]] = []
    highlight: list[int] = []
    if "learned" in found:
        learned = found["learned"]
        columns[2:2] = ["IQM", "95% interval", "difference"]
        tuned = "after tuning" if learned["tuned"] else "with the settings of the run"
        note += (
            f"; IQM: interquartile mean on held-out seeds {tuned}, with its 95% interval, "
            "and the difference from the learned part, which has its number of parameters in "
            "brackets"
        )
    for each in found["formulas" if "learned" in found else "front"]:
        rows.append([each["length"], each["error"], *_scores(each), each["text"]])
    if "learned" in found:
        highlight = [len(rows)]
        rows.append([f"({learned['numbers']:,})", 0.0, *_scores(learned), "learned"])
        for each in found["hand_written"]:
            length = "" if each["length"] is None else each["length"]
            rows.append([length, "", *_scores(each), each["name"]])
    return page.Table("Formulas", columns, rows, note=f"{note}.", highlight=highlight)


def _scores(row: PlainDict) -> list[object]:
    """Return the cells of an evaluated formula."""
    if "iqm" not in row:
        return []
    against = row.get("against_learned")
    difference = difference_text(against) if against else ""
    return [row["iqm"], interval(*row["interval"]), difference]
