"""Distill a learned part into formulas, with the results in RUN/distill.

Record trainings that use the learned part, fit formulas of increasing length to its outputs, and
judge them together with the learned part and the hand-written ones.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from metaevo.config import ConfigError, files, show, to_dict
from metaevo.config.plain import PlainDict
from metaevo.discovery import regression
from metaevo.discovery.records import record
from metaevo.discovery.regression import Fitted
from metaevo.discovery.targets import TARGETS
from metaevo.evolution.problem import Contender
from metaevo.judging import tables
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import resolve, saved
from metaevo.parts.optimizer import LearnedOptimizer
from metaevo.parts.part import LEARNED, Filling, Part, Parts
from metaevo.reports import page
from metaevo.reports.numbers import estimate
from metaevo.runs.quick import mark
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.changed import judge_in
from metaevo.studies.learner import LearnerStudy, problem_of
from metaevo.studies.settings import EvolveSettings, judged_on
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams

RESULT = "distilled.json"
FIGURE = "scores.png"


class Search(NamedTuple):
    """Sizes of the search."""

    evaluations: int
    """number of formula evaluations"""
    formulas: int
    """maximum number of formulas to judge"""


def distill(
    before: EvolveSettings,
    settings: EvolveSettings,
    run_dir: Path,
    slot: str | None,
    name: str | None,
    search: Search,
) -> int:
    """Find formulas for an evolved part, and judge them.

    Args:
        before: settings of the run; its trainings are recorded.
        settings: of the judgement, which may use another task.
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
    part = part_to_distill(run_dir, evolved, slot)
    study = LearnerStudy(settings, run_dir)
    if settings.evaluation.seeds:
        study.check()
    directory = RunDirectory(run_dir / "distill" / (name or part.slot))

    def work(check_stop: Callable[[], None]) -> None:
        problem = problem_of(before, run_dir)
        target, seed = TARGETS[part.slot], before.run.seed
        _say("recording trainings")
        records = record(problem, meta_params, part, target, seed=seed, check_stop=check_stop)
        count = len(records.wanted)
        if count < 100 or not np.ptp(records.wanted):
            raise ConfigError(
                f"{run_dir}: nothing that could be fitted: of {target.what} {count} finite samples "
                "in its trainings, or all the same"
            )
        arrays: PlainDict = {**records.inputs, "wanted": records.wanted}
        with files.replacing(directory.path / "records.npz") as file:
            np.savez(file, **arrays)
        inputs = regression.mattering(target, records, seed)
        _say(f"searching for formulas of {', '.join(inputs)}")
        front = regression.search(
            part.slot, target, inputs, records.wanted, seed=seed, evaluations=search.evaluations
        )
        formulas = regression.thinned(front, search.formulas)
        check_stop()
        for each in formulas:
            _save(directory, each, before)
        about: PlainDict = {"slot": part.slot, "part": evolved.references[part.slot]}
        about |= {"samples": count, "inputs": list(inputs), **mark(to_dict(settings))}
        about["front"] = [each.record() for each in front]
        files.write_json_atomic(directory.path / RESULT, about)
        scores = None
        if settings.evaluation.seeds:
            judgement = _judgement(study.learner_problem, meta_params, formulas, settings)
            scores = run(judgement, directory.scores_path, "judging", check_stop=check_stop)
        subtitle = f"{count:,} samples, inputs: {', '.join(inputs)}"
        sections = _sections(part.slot, formulas if scores else front, scores, directory.figures)
        sections.append(page.folded("Settings", to_dict(settings)))
        title = f"Formulas of {part.slot.replace('_', ' ')} for {settings.learner}"
        page.write_report(directory.report_path, title, subtitle, sections, show=True)
        print(f"report: {directory.report_path}")

    return judge_in(directory, settings, judged_on, {"distill": search._asdict()}, work)


def part_to_distill(run_dir: Path, evolved: Parts, slot: str | None) -> Part:
    """Return the part in a slot, or the only one that can be distilled.

    Raises:
        ConfigError: if there is none, or several.
    """
    parts = [each for each in evolved.by_slot.values() if each.slot in TARGETS]
    networks = [each for each in parts if isinstance(each, LearnedOptimizer)]
    known = {each.slot: each for each in parts if each.slot != "make_optimizer" or each in networks}
    if any(each.memory_size for each in networks) or not known:
        raise ConfigError(
            f"{run_dir} has evolved {', '.join(evolved.by_slot)}: only value and policy losses and "
            "optimizers that are networks without memory (optimizer) are distilled"
        )
    if slot not in known and (slot or len(known) > 1):
        raise ConfigError(f"--slot = {show(slot)}: must be one of {', '.join(known)}")
    return known[slot or next(iter(known))]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _save(directory: RunDirectory, each: Fitted, settings: EvolveSettings) -> None:
    """Save a formula for `metaevo.load` and settings such as `value_loss`."""
    own = RunDirectory(directory.path / each.name.replace(" ", "_"))
    os.makedirs(own.path, exist_ok=True)
    parts, meta_params = Parts.single(each.part, "formula"), each.part.init(jax.random.key(0))
    saved.save(own, parts, meta_params, 0, {"task": to_dict(settings.task)})


def _judgement(
    problem: LearnerProblem,
    meta_params: MetaParams,
    formulas: list[Fitted],
    settings: EvolveSettings,
) -> Judgement:
    """Return the judgement of the learned part, its formulas and the hand-written functions."""
    contenders = [Contender(LEARNED, problem, meta_params, LEARNED)]
    for each in formulas:
        filling = Filling(each.part, each.part.init(jax.random.key(0)))
        parts, own = problem.parts.with_part(meta_params, filling)
        # The text is the group, so that scores of another formula of this length are not kept.
        contenders.append(Contender(each.name, problem.with_parts(parts), own, each.text))
    config = settings.evaluation
    contenders += problem.contenders(config.contenders, config.own)
    return Judgement(contenders, config.budget, space=config.space, seed=settings.run.seed)


def _sections(
    slot: str, formulas: list[Fitted], scores: Scores | None, figures: Path
) -> list[page.Section]:
    """Return the tables of a report, and the figure and the verdicts of a judgement."""
    note = (
        f"A formula is {TARGETS[slot].what}. A length is the number of numbers, names, operators "
    )
    note += "and functions. error: the share of the variance in trainings that is not explained."
    columns = ["length", "error", "formula"]
    rows: list[list[object]] = [[each.length, each.error, each.text] for each in formulas]
    if scores is None:
        return [page.Table("Formulas", columns, rows, note=note)]
    columns[2:2] = [f"difference from {LEARNED}", "verdict"]
    for each, row in zip(formulas, rows, strict=True):
        change, judged = scores.difference(each.name, LEARNED), scores.verdict(each.name)
        row[2:2] = [estimate(change.value, *change.interval, sign=True), judged.word]
    path = scores.plot(figures / FIGURE)
    return [
        page.Table("Formulas", columns, rows, note=note),
        tables.contenders(scores),
        page.Image("", path, "Scores on held-out seeds with 95% intervals."),
    ]
