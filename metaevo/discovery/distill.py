"""Distill a learned part into formulas, with the results in RUN/distill: observe, fit, judge."""

import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from metaevo.config import ConfigError, PlainDict, files, show, to_dict
from metaevo.discovery import fit
from metaevo.discovery.fit import Fitted
from metaevo.discovery.observe import TARGETS, observe
from metaevo.evolution.problem import Contender
from metaevo.judging import tables
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import records
from metaevo.parts.learners import reference_to
from metaevo.parts.optimizer import LearnedOptimizer
from metaevo.parts.part import LEARNED, Part, Parts
from metaevo.parts.resolve import parts_of
from metaevo.reports import page
from metaevo.reports.page import estimate
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.changed import judge_in, planned
from metaevo.studies.settings import EvolveSettings
from metaevo.studies.study import Study
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams

RESULT = "distilled.json"
FEWEST = 100
"""samples to fit"""


def distill(
    before: EvolveSettings,
    settings: EvolveSettings,
    run_dir: Path,
    *,
    slot: str | None,
    name: str | None,
    evaluations: int,
    formulas: int,
    dry_run: bool = False,
) -> int:
    """Find formulas for an evolved part, and judge them with the hand-written functions.

    Args:
        before: settings of the run; its trainings are recorded.
        settings: of the judgement, which may use another task.
        run_dir: of the run.
        slot: of the part; required if the run evolved several.
        name: of the directory in `run_dir/distill`; by default the slot's.
        evaluations: number of formulas that the search tries.
        formulas: maximum number of formulas to judge.
        dry_run: print what would be computed, and write nothing.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the settings or the directory are invalid.
    """
    fit.require()
    if before.tasks:
        raise ConfigError(f"{run_dir} evolved on several tasks: only rules of one are distilled")
    found, meta_params = parts_of(run_dir)
    part = part_to_distill(run_dir, found, slot)
    judged = settings.build(run_dir)
    study = Study(judged, settings)
    if settings.evaluation.seeds:
        study.check()
    if dry_run:
        rows = [["formulas to try", f"{evaluations:,}"]]
        rows += [["of them judged, at most", str(formulas)]]
        if settings.evaluation.seeds:
            rows += planned({"judged with": _judgement(judged, meta_params, [], settings)})
        print(page.Table("Plan", ["", ""], rows).text())
        return 0
    directory, seed = RunDirectory(run_dir / "distill" / (name or part.slot)), before.run.seed

    def work(check_stop: Callable[[], None]) -> None:
        print("recording trainings", file=sys.stderr, flush=True)
        problem = before.build(run_dir)
        observed = observe(problem, meta_params, part, seed=seed, check_stop=check_stop)
        what, count = TARGETS[part.slot].what, len(observed.wanted)
        if count < FEWEST or not np.ptp(observed.wanted):
            raise ConfigError(
                f"{run_dir}: nothing that could be fitted: of {what} {count} finite samples in its "
                "trainings, or all the same"
            )
        arrays: PlainDict = {**observed.inputs, "wanted": observed.wanted}
        with files.replacing(directory.path / "records.npz") as file:
            np.savez(file, **arrays)
        inputs = fit.mattering(part.slot, observed, seed)
        print(f"searching for formulas of {', '.join(inputs)}", file=sys.stderr, flush=True)
        wanted = observed.wanted
        front = fit.search(part.slot, inputs, wanted, seed=seed, evaluations=evaluations)
        chosen, scores = fit.thinned(front, formulas), None
        check_stop()
        for each in chosen:
            _save(directory, each, before)
        about: PlainDict = {"slot": part.slot, "part": reference_to(part)}
        about |= {"samples": count, "inputs": list(inputs)}
        about["front"] = [
            {"name": each.name, "length": each.part.length, "error": each.error, "text": each.text}
            | to_dict(each.part)
            for each in front
        ]
        files.write_json_atomic(directory.path / RESULT, about)
        if settings.evaluation.seeds:
            judgement = _judgement(judged, meta_params, chosen, settings)
            scores = run(judgement, directory.scores_path, "judging", check_stop=check_stop)
        note = (
            f"A formula is {what}. A length is the number of numbers, names, operators and "
            "functions. error: the share of the variance in trainings that is not explained."
        )
        sections: list[page.Section] = [_table(chosen if scores else front, scores, note)]
        if scores is not None:
            path = scores.plot(directory.figures / "scores.png")
            text = "Scores on held-out seeds with 95% intervals."
            sections += [tables.contenders(scores), page.Image("", path, text)]
        sections.append(page.folded("Settings", to_dict(settings)))
        title = f"Formulas of {part.slot.replace('_', ' ')} for {settings.learner}"
        subtitle = f"{count:,} samples, inputs: {', '.join(inputs)}"
        page.write_report(directory.report_path, title, subtitle, sections)

    resolved = {"distill": {"evaluations": evaluations, "formulas": formulas}}
    return judge_in(directory, settings, resolved, work)


def part_to_distill(run_dir: Path, evolved: Parts, slot: str | None) -> Part:
    """Return the part in a slot, or the only one that can be distilled.

    Raises:
        ConfigError: if there is none, or several.
    """
    known = {
        each.slot: each
        for each in evolved.by_slot.values()
        if (isinstance(each, LearnedOptimizer) and not each.memory_size)
        or (each.slot in TARGETS and each.slot != "make_optimizer")
    }
    if not known:
        raise ConfigError(
            f"{run_dir} has evolved {', '.join(evolved.by_slot)}: only value and policy losses and "
            "optimizers that are networks without memory (optimizer) are distilled"
        )
    if slot not in known and (slot or len(known) > 1):
        raise ConfigError(f"--slot = {show(slot)}: must be one of {', '.join(known)}")
    return known[slot or next(iter(known))]


def _save(directory: RunDirectory, each: Fitted, settings: EvolveSettings) -> None:
    """Save a formula for `metaevo.load` and settings such as `value_loss`."""
    own = RunDirectory(directory.path / each.name.replace(" ", "_"))
    files.make_folder(own.path)
    parts, meta_params = Parts({each.part.slot: each.part}), each.part.init(jax.random.key(0))
    records.write(own, parts, meta_params, 0, {"task": to_dict(settings.task)})


def _judgement(
    problem: LearnerProblem,
    meta_params: MetaParams,
    formulas: list[Fitted],
    settings: EvolveSettings,
) -> Judgement:
    """Return the judgement of the learned part, its formulas and the hand-written functions."""
    contenders = [Contender(LEARNED, problem, meta_params, LEARNED)]
    for each in formulas:
        slot, own = each.part.slot, each.part.init(jax.random.key(0))
        parts = Parts({**problem.parts.by_slot, slot: each.part})
        own = own if len(parts.by_slot) == 1 else {**meta_params, slot: own}
        # The text is the group, so that scores of another formula of this length are not kept.
        contenders.append(Contender(each.name, problem.with_parts(parts), own, each.text))
    config = settings.evaluation
    contenders += problem.contenders(config.contenders, config.own)
    return Judgement(contenders, config.budget(), space=config.space, seed=settings.run.seed)


def _table(formulas: list[Fitted], scores: Scores | None, note: str) -> page.Table:
    """Return the formulas, with their differences from the learned part if they were judged."""
    columns, rows = ["length", "error", "formula"], []
    if scores is not None:
        columns[2:2] = [f"difference from {LEARNED}", "verdict"]
    for each in formulas:
        row: list[object] = [each.part.length, each.error, each.text]
        if scores is not None:
            change, verdict = scores.difference(each.name, LEARNED), scores.verdict(each.name)
            row[2:2] = [estimate(change, sign=True), verdict.word]
        rows.append(row)
    return page.Table("Formulas", columns, rows, note=note)
