"""Distill a learned part into formulas, with the results in RUN/distill.

Record trainings that use the learned part, fit formulas of increasing length to its outputs, and
judge them together with the learned part and the hand-written ones.
"""

import functools
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
from metaevo.discovery.records import record, values
from metaevo.discovery.regression import Fitted
from metaevo.discovery.targets import TARGETS
from metaevo.evolution.problem import Contender
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import formula, resolve, saved
from metaevo.parts.optimizer import LearnedOptimizer
from metaevo.parts.part import LEARNED, Filling, Part, Parts
from metaevo.reports import page
from metaevo.reports.formula_plots import Scored, plot_formulas
from metaevo.reports.numbers import estimate
from metaevo.runs.quick import mark
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.changed import judge_in
from metaevo.studies.learner import LearnerStudy, problem_of
from metaevo.studies.settings import EvolveSettings, judged_on
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams

RESULT = "distilled.json"
FIGURE = "score_length.png"


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
    part = _part(run_dir, evolved, slot)
    study = LearnerStudy(settings, run_dir)
    if settings.evaluation.seeds:
        study.check()
    directory = RunDirectory(run_dir / "distill" / (name or part.slot))

    def work(check_stop: Callable[[], None]) -> None:
        problem = problem_of(before, run_dir)
        front, found = _formulas(directory, problem, part, meta_params, search, before, check_stop)
        candidates = regression.thinned(front, search.formulas)
        check_stop()
        for each in candidates:
            _save(directory, each, before)
        about = {"slot": part.slot, "part": evolved.references[part.slot], **found}
        about |= {"front": [each.record() for each in front], **mark(to_dict(settings))}
        files.write_json_atomic(directory.path / RESULT, about)
        scores = None
        if settings.evaluation.seeds:
            judgement = _judgement(study.learner_problem, meta_params, candidates, settings)
            file = directory.scores_path
            scores = run(judgement, file, "judging", check_stop=check_stop)
        numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(meta_params))
        shown = candidates if scores else front
        subtitle = f"{found['samples']:,} samples, inputs: {', '.join(found['inputs'])}"
        _report(directory, part, shown, scores, numbers, settings, subtitle)

    return judge_in(directory, settings, judged_on, {"distill": search._asdict()}, work)


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
    directory: RunDirectory,
    problem: LearnerProblem,
    part: Part,
    meta_params: MetaParams,
    search: Search,
    settings: EvolveSettings,
    check_stop: Callable[[], None],
) -> tuple[list[Fitted], PlainDict]:
    """Record trainings and search for formulas; return the front, and what it was fitted to."""
    target, seed = TARGETS[part.slot], settings.run.seed
    _say("recording trainings")
    records = record(problem, meta_params, part, target, seed=seed, check_stop=check_stop)
    if len(records.wanted) < 100 or not np.ptp(records.wanted):
        raise ConfigError(
            f"{directory.path.parent.parent}: nothing that could be fitted: of {target.what} "
            f"{len(records.wanted)} finite samples in its trainings, or all the same"
        )
    with files.replacing(directory.path / "records.npz") as file:
        np.savez(
            file, scalars=records.scalars, progress=records.contexts.progress, wanted=records.wanted
        )
    own = problem.parts.of(meta_params, part.slot)
    of_records = functools.partial(values, target.value_of(part), own)
    inputs = regression.mattering(target, records, of_records, seed)
    _say(f"searching for formulas of {', '.join(inputs)}")
    front = regression.search(
        part.slot, target, records, inputs, seed=seed, evaluations=search.evaluations
    )
    return front, {"samples": len(records.wanted), "inputs": list(inputs)}


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


def _report(
    directory: RunDirectory,
    part: Part,
    formulas: list[Fitted],
    scores: Scores | None,
    numbers: int,
    settings: EvolveSettings,
    subtitle: str,
) -> None:
    """Print the results and write report.html; `numbers` counts the part's meta-parameters."""
    what = TARGETS[part.slot].what
    note = f"Each formula is {what}. error: "
    note += "the share of the variance in trainings that is not explained"
    if scores is None:
        rows: list[list[object]] = [[each.length, each.error, each.text] for each in formulas]
        table = page.Table("Formulas", ["length", "error", "formula"], rows, note=f"{note}.")
        sections: list[page.Section] = []
    else:
        table = _table(scores, part.slot, formulas, numbers, note)
        path = directory.figures / FIGURE
        _draw(scores, part.slot, formulas, numbers, path)
        caption = (
            "Interquartile mean on held-out seeds with 95% interval. A length is the "
            "number of numbers, names, operators and functions."
        )
        sections = [page.Image("", path, caption)]
    print(f"\n{table.text()}\n")
    for each in formulas:
        print(f"{each.name}: {what} = {each.text}")
    page.write_report(
        directory.report_path,
        f"Formulas of {part.slot.replace('_', ' ')} for {settings.learner}",
        subtitle,
        [*sections, table, page.KeyValues("Settings", to_dict(settings))],
    )
    print(f"report: {directory.report_path}")


def _lengths(scores: Scores, slot: str) -> dict[str, int | None]:
    """Return the lengths of the hand-written functions as formulas, by their names."""
    known = formula.HAND_WRITTEN.get(slot, {})
    return {name: known[name].length if name in known else None for name in scores.baselines}


def _table(
    scores: Scores, slot: str, formulas: list[Fitted], numbers: int, note: str
) -> page.Table:
    """Return the table of formulas, the learned part and hand-written functions."""

    def row(name: str, length: object, error: object, text: str) -> list[object]:
        score, cells = scores.iqm(name), ["", ""]
        if name != LEARNED:
            found = scores.difference(name, LEARNED)
            cells[0] = estimate(found.value, *found.interval, sign=True)
        if name not in scores.baselines:
            judged = scores.verdict(name)
            difference = estimate(judged.difference, *judged.interval, sign=True)
            cells[1] = f"{judged.word}: {difference} against {judged.baseline}"
        return [length, error, score.value, score.interval, *cells, text]

    rows = [row(each.name, each.length, each.error, each.text) for each in formulas]
    rows.append(row(LEARNED, f"({numbers:,})", 0.0, LEARNED))
    for name, length in _lengths(scores, slot).items():
        rows.append(row(name, "" if length is None else length, "", name))
    tuned = f" after {scores.tried} settings each" if scores.tried else ", not tuned"
    note += (
        f"; IQM: interquartile mean on {scores.seeds} held-out seeds{tuned}; difference: from the "
        "learned part, which has its number of parameters in brackets."
    )
    columns = ["length", "error", "IQM", "95% interval", "difference", "verdict", "formula"]
    return page.Table("Formulas", columns, rows, note=note, highlight=[len(formulas)])


def _draw(scores: Scores, slot: str, formulas: list[Fitted], numbers: int, path: Path) -> None:
    lengths = _lengths(scores, slot).items()
    plot_formulas(
        [Scored(each.name, each.length, scores.iqm(each.name)) for each in formulas],
        [Scored(name, length, scores.iqm(name)) for name, length in lengths if length is not None],
        scores.iqm(LEARNED),
        path,
        numbers=numbers,
        ylabel="score on held-out seeds",
    )
