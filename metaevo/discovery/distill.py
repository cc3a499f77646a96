"""Distill a learned part into formulas or smaller networks, with the results in RUN/distill.

Record trainings that use the learned part, fit formulas of increasing length and networks with few
units to its outputs, and evaluate every candidate by the same protocol as the learned part.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metaevo.comparison.protocol import task_of
from metaevo.components import discovery, seen
from metaevo.components.parts import Evolved, Part
from metaevo.config import ConfigError, files, show, to_dict
from metaevo.config.files import write_json_atomic
from metaevo.config.plain import PlainDict
from metaevo.discovery import factors, networks, regression
from metaevo.discovery.judging import (
    Candidate,
    judge,
    judge_on_tasks,
    of_formula,
    of_network,
)
from metaevo.discovery.records import record, values
from metaevo.discovery.targets import TARGETS
from metaevo.reports import page
from metaevo.reports.formula_plots import plot_formulas
from metaevo.reports.numbers import difference_text, interval, score_text
from metaevo.runs.quick import mark
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.changed import judge_in
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings
from purerl.types import MetaParams

RESULT = "distilled.json"
FIGURE = "score_length.png"
FORMULA, NETWORK = "formula", "network"


class Search(NamedTuple):
    """Sizes of the search and the forms to search for."""

    evaluations: int
    """number of formula evaluations"""
    formulas: int
    """maximum number of formulas to evaluate as candidates"""
    into: tuple[str, ...]
    """formula, network, or both"""


class _Job(NamedTuple):
    """The part to distill, and how."""

    run_dir: Path
    """of the evolution"""
    run: RunDirectory
    """of the results"""
    study: LearnerStudy
    """of the run; its trainings are recorded"""
    judged: LearnerStudy
    """of the comparison, which may use another task"""
    part: Part
    meta_params: MetaParams
    """of all parts of the run"""
    search: Search
    check_stop: Callable[[], None]

    @property
    def own(self) -> MetaParams:
        """The meta-parameters of the part."""
        return self.study.evolved.of(self.meta_params, self.part.name)


def distill(
    before: EvolveSettings,
    settings: EvolveSettings,
    run_dir: Path,
    slot: str | None,
    name: str | None,
    search: Search,
) -> int:
    """Find formulas or smaller networks for an evolved part, and evaluate them.

    Args:
        before: settings of the run; its trainings are recorded.
        settings: of the comparison, which may use another task.
        run_dir: of the run.
        slot: of the part; required if the run evolved several.
        name: of the directory in `run_dir/distill`; by default the slot's.
        search: what to search for.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the settings or the directory are invalid.
    """
    if FORMULA in search.into:
        regression.require()
    evolved, meta_params = discovery.load_all(run_dir)
    part = _part(run_dir, evolved, slot)
    if NETWORK in search.into:
        if part.slot.name == factors.SLOT:
            raise ConfigError("--into network: a schedule has no network; leave it out")
        networks.smaller(part)
    study = LearnerStudy(before, run_dir)
    judged = LearnerStudy(settings, run_dir)
    if settings.evaluation.seeds:
        judged.check()
    run = RunDirectory(run_dir / "distill" / (name or part.slot.name))

    def work(check_stop: Callable[[], None]) -> None:
        job = _Job(run_dir, run, study, judged, part, meta_params, search, check_stop)
        found = _distilled(job)
        write_json_atomic(run.path / RESULT, found | mark(to_dict(settings)))
        _report(run, part, found, settings)

    return judge_in(run, settings, task_of, {"distill": search._asdict()}, work)


def _part(run_dir: Path, evolved: Evolved, slot: str | None) -> Part:
    """Return the part to distill."""
    slots = *TARGETS, factors.SLOT
    known = {part.slot.name: part for part in evolved.parts.values() if part.slot.name in slots}
    has = ", ".join(part.slot.name for part in evolved.parts.values())
    if not known:
        raise ConfigError(
            f"{run_dir} has evolved {has}: only losses, optimizers and schedules are distilled "
            f"({', '.join(slots)})"
        )
    if slot is None and len(known) > 1:
        raise ConfigError(f"{run_dir} holds several parts: say which one, --slot {'|'.join(known)}")
    if slot is not None and slot not in known:
        raise ConfigError(f"--slot = {show(slot)}: must be one of {', '.join(known)}")
    part = known[slot or next(iter(known))]
    if part.slot.name == "make_optimizer" and part.component.direction is None:
        raise ConfigError(
            f"{run_dir}: {part.name}: of optimizers, only networks without memory are distilled"
        )
    return part


def _distilled(job: _Job) -> PlainDict:
    part, judged = job.part, job.judged
    find = _of_schedule if part.slot.name == factors.SLOT else _of_records
    found, candidates = find(job)
    job.check_stop()
    about = {
        "slot": part.slot.name,
        "component": part.source,
        "into": list(job.search.into),
        **found,
        "networks": [each.about for each in candidates if "units" in each.about],
    }
    for each in candidates:
        _save(job.run, each, job.study.settings)
    if not judged.settings.evaluation.seeds:
        return about
    common = part, job.meta_params, candidates, job.run.path
    if judged.seen:
        return about | judge_on_tasks(judged.seen, *common, check_stop=job.check_stop)
    return about | judge(judged.experiment, *common, check_stop=job.check_stop)


def _of_schedule(job: _Job) -> tuple[PlainDict, list[Candidate]]:
    """Search for formulas of a schedule; return a summary and the candidates."""
    wanted: dict[str, np.ndarray] = {}
    for each in job.study.experiments:
        wanted = factors.factors_of(job.part, job.own, each.settings) | wanted
    if not wanted:
        raise ConfigError(f"{job.run_dir}: its schedule leaves all hyperparameters as they are")
    _say(f"searching for formulas of {', '.join(wanted)}")
    seed, search = job.study.settings.run.seed, job.search
    front = factors.search(wanted, seed=seed, evaluations=search.evaluations)
    about = {"samples": len(factors.PROGRESS), "inputs": ["progress"], "hyperparams": list(wanted)}
    about |= {"front": [of_formula(each).about for each in front]}
    return about, [of_formula(each) for each in regression.thinned(front, search.formulas)]


def _of_records(job: _Job) -> tuple[PlainDict, list[Candidate]]:
    """Distill a loss or an optimizer into formulas, networks, or both."""
    part, search, seed = job.part, job.search, job.study.settings.run.seed
    target = TARGETS[part.slot.name]
    _say("recording trainings")
    records = record(job.study.experiments, job.meta_params, part, target, job.check_stop)
    if len(records.wanted) < 100 or not np.ptp(records.wanted):
        raise ConfigError(
            f"{job.run_dir}: nothing that could be fitted: of {target.what} "
            f"{len(records.wanted)} finite samples in its trainings, or all the same"
        )
    with files.replacing(job.run.path / "records.npz") as file:
        scalars, wanted, times = records.scalars, records.wanted, records.times
        progress, length = times["progress"], times["length"]
        np.savez(file, scalars=scalars, progress=progress, length=length, wanted=wanted)
    about: PlainDict = {"samples": len(records.wanted)}
    candidates: list[Candidate] = []
    if FORMULA in search.into:
        of_records = functools.partial(values, target.value_of(part), job.own)
        inputs = regression.mattering(target, records, of_records, seed)
        _say(f"searching for formulas of {', '.join(inputs)}")
        front = regression.search(
            part.slot.name, target, records, inputs, seed=seed, evaluations=search.evaluations
        )
        job.check_stop()
        about |= {"inputs": list(inputs), "front": [of_formula(each).about for each in front]}
        candidates += map(of_formula, regression.thinned(front, search.formulas))
    if NETWORK in search.into:
        for units, small in networks.smaller(part).items():
            _say(f"fitting a network of {units}")
            network = networks.fitted(small, units, target, records, seed=seed)
            candidates.append(of_network(network))
            job.check_stop()
    return about, candidates


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _save(run: RunDirectory, each: Candidate, settings: EvolveSettings) -> None:
    """Save a candidate for `metaevo.load` and settings such as `value_loss`."""
    directory = RunDirectory(run.path / each.name.replace(" ", "_"))
    os.makedirs(directory.path, exist_ok=True)
    part, meta_params = each.replacement
    evolved = Evolved({part.name: part}, False)
    discovery.keep_sources(directory, evolved, discovery.digests_of(evolved))
    discovery.save(
        directory, evolved, meta_params, 0, settings.learner, seen.section(to_dict(settings))
    )


def _report(run: RunDirectory, part: Part, found: PlainDict, settings: EvolveSettings) -> None:
    """Print the results and write report.html."""
    if part.slot.name != factors.SLOT:
        what = TARGETS[part.slot.name].what
    elif len(found["hyperparams"]) == 1:
        what = f"the factor of {found['hyperparams'][0]}"
    else:
        what = "the factors of hyperparameters"
    tables = [_table(found, what)]
    if "tasks" in found:
        tables.append(_table_of_tasks(found))
    for table in tables:
        print(f"\n{table.text()}")
    print()
    first: list[page.Section] = []
    if "learned" in found:
        plot_formulas(
            found["formulas"],
            found["hand_written"],
            found["learned"],
            run.figures / FIGURE,
            networks=found["networks"],
            ylabel=f"{'normalised ' * ('tasks' in found)}score on held-out seeds",
        )
        pooled = f" of {_pooled(found)}" if "tasks" in found else ""
        caption = (
            f"Interquartile mean{pooled} on held-out seeds with 95% interval. A length is the "
            "number of numbers, names, operators and functions."
        )
        first.append(page.Image("", run.figures / FIGURE, caption))
    for each in found.get("formulas", []):
        print(f"{each['name']}: {what} = {each['text']}")
    kinds = ", ".join(f"{kind}s" for kind in found["into"])
    inputs = f", inputs: {', '.join(found['inputs'])}" if "inputs" in found else ""
    page.write_report(
        run.path / "report.html",
        f"{kinds.capitalize()} of {part.name.replace('_', ' ')} for {settings.learner}",
        f"{found['samples']:,} samples{inputs}",
        [*first, *tables, page.KeyValues("Settings", to_dict(settings))],
    )
    print(f"report: {run.path / 'report.html'}")


def _table(found: PlainDict, what: str) -> page.Table:
    """Return the table of formulas and networks, with their scores if they were evaluated."""
    note = f"Each formula is {what}; a network has its number of parameters in brackets. error: "
    note += "the share of the variance in trainings that is not explained"
    columns = ["length", "error", "formula"]
    rows: list[list[object]] = []
    highlight: list[int] = []
    if "learned" in found:
        learned = found["learned"]
        columns[2:2] = ["IQM", "95% interval", "difference"]
        tuned = "after tuning" if learned["tuned"] else "with the settings of the run"
        pooled = f" of {_pooled(found)}" if "tasks" in found else ""
        note += (
            f"; IQM: interquartile mean{pooled} on held-out seeds {tuned}, with its 95% interval, "
            "and the difference from the learned part"
        )
    formulas = found["formulas"] if "learned" in found else found.get("front", [])
    for each in [*formulas, *found["networks"]]:
        name = each["text"] if "text" in each else each["name"]
        rows.append([_length(each), each["error"], *_scores(each), name])
    if "learned" in found:
        highlight = [len(rows)]
        rows.append([_length(learned), 0.0, *_scores(learned), "learned"])
        rows += [
            [_length(each), "", *_scores(each), each["name"]] for each in found["hand_written"]
        ]
    title = " and ".join(f"{kind}s" for kind in found["into"]).capitalize()
    return page.Table(title, columns, rows, note=f"{note}.", highlight=highlight)


def _pooled(found: PlainDict) -> str:
    """Return what the scores over all tasks are."""
    return (
        f"the normalised scores of {found['scaled']} tasks (0 random play, 1 the tuned reference)"
    )


def _table_of_tasks(found: PlainDict) -> page.Table:
    """Return the differences from the learned part on each task."""
    rows, names = [], []
    for task, result in found["tasks"].items():
        learned = result["learned"]
        best = next(
            each
            for each in result["hand_written"]
            if result["best_hand_written"].startswith(f"{each['name']} (")
        )
        candidates = [*result["formulas"], *result["networks"]]
        names = [each["name"] for each in candidates]
        differences = [difference_text(each["against_learned"]) for each in candidates]
        rows.append([task, score_text(learned), f"{best['name']} {score_text(best)}", *differences])
    note = (
        "Interquartile means on held-out seeds with 95% intervals; for formulas and networks, the "
        "difference from the learned part."
    )
    columns = ["task", "learned", "best hand-written one", *names]
    return page.Table("Tasks of the evolution", columns, rows, note=note)


def _length(row: PlainDict) -> object:
    if "numbers" in row:
        return f"({row['numbers']:,})"
    return "" if row["length"] is None else row["length"]


def _scores(row: PlainDict) -> list[object]:
    """Return the cells of an evaluated formula or network."""
    if "iqm" not in row:
        return []
    against = row.get("against_learned")
    difference = difference_text(against) if against else ""
    return [row["iqm"], interval(*row["interval"]), difference]
