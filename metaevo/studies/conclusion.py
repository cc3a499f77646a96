"""Conclude one evolution or several with the held-out comparison, figures and the report."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from metaevo.config import checks
from metaevo.config.files import read_json
from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.evolution.trouble import trouble
from metaevo.judging import tables
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.parts.resolve import is_loadable
from metaevo.reports import judgement, page, plots
from metaevo.runs import checkpoint
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run import Run
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.study import Study, evolved_numbers

QUICK = "Quick look: too few seeds to conclude"
FEW = 12
"""Maximum count of evolved numbers that are listed."""
FILM = "What was found after some of the generations, on axes that stay the same, and its fitness."
FITNESS, CURVES, FRONT = "fitness.png", "learning_curves.png", "front.png"
PICTURES = {SCORES: "scores.png", UNSEEN: "unseen.png"}
"""The figures of the judgements."""
CAPTIONS = {
    PICTURES[SCORES]: "Interquartile mean on held-out seeds with 95% intervals, and the score to "
    "expect of fewer settings.",
    FITNESS: "Fitness over the generations; the best candidate is the luckiest one. Of several "
    "evolutions the chosen one is the best on validation seeds.",
    PICTURES[UNSEEN]: "The same over all unseen tasks (scaled, if they are several of a learner: 0 "
    "is random play, 1 the tuned reference).",
    CURVES: "Learning curves on held-out seeds: mean return of the episodes that finished.",
    FRONT: "The front of score against length at the end: each program scores more than all "
    "shorter ones, on the search seeds. The score is a mean less its standard error. A program "
    "that was trained in few generations (hollow) may have been lucky.",
}
Records = Mapping[str, Sequence[PlainMapping]]
"""Records of the generations by evolution."""


def conclude(study: Study, run: Run, evolutions: Evolutions | None = None) -> None:
    """Judge the result of a run with all generations done, and write figures and report."""
    directory = run.directory
    if evolutions is not None:
        evolutions.save_chosen(directory)
    found, source = _draw_found(study, directory)
    learned = {LEARNED: found} if evolutions is None else evolutions.learned()
    is_unseen = study.problem.unseen() is not None
    scores: dict[str, Scores] = {}
    for name, each in study.compare(learned, directory.path, check_stop=run.check_stop):
        scores[name] = each
        if name == SCORES and is_unseen and not is_quick(directory.read_config()["config"]):
            table = f"{each.table()}\n" if each.pooled else ""
            print(f"\n{tables.verdict(each).text()}\n\n{table}", flush=True)
    own = scores.get(SCORES)
    if own is not None and own.pooled:
        rows = []
        for name in own.contenders:
            iqm, interval = own.iqm(name)
            rows.append({"name": name, "iqm": iqm, "interval": interval})
        seconds = sum(each["seconds"] for each in _last(_records_of(directory, evolutions)))
        run.log_evaluation(rows, [own.frames // len(rows)] * len(rows), seconds)
    write_report(study, directory, found, source, scores, evolutions=evolutions)
    print(f"report: {directory.report_path}")


def present(study: Study, run: Run) -> None:
    """Draw and report one evolution of several, which are compared together elsewhere."""
    found, source = _draw_found(study, run.directory)
    write_report(study, run.directory, found, source, {}, show=False)


def write_report(
    study: Study,
    directory: RunDirectory,
    found: MetaParams,
    source: Path | None,
    scores: Mapping[str, Scores],
    *,
    evolutions: Evolutions | None = None,
    show: bool = True,
) -> None:
    """Write report.html and the figures of its numbers, and print the tables and the verdict.

    `directory` belongs to the run, or to a judgement on another task. `metaevo.load` reads the
    meta-parameters `found` from `source`; it is None if it cannot. `scores` are what
    `study.compare` returned.
    """
    saved, records = directory.read_config(), _records_of(directory, evolutions)
    chosen = directory if evolutions is None else evolutions.chosen.directory
    others = _others(chosen)
    _draw_numbers(directory.figures, records, scores, evolutions)
    if others and {"length", "score"} <= others[0].keys():
        from metaevo.reports.results import plot_front

        plot_front(others, directory.figures / FRONT)
    sections: list[page.Section] = [page.Text(QUICK, [NOTE], "quick")]
    if not is_quick(saved["config"]):
        sections = [tables.verdict(each, is_unseen=name == UNSEEN)
                    for name, each in scores.items() if each.baselines]  # fmt: skip
    facts = [list(each) for each in _facts(saved, records, scores, source)]
    sections += [page.Table("", ["", ""], facts)] if facts else []
    if findings := list(_findings(study, saved, found, records, evolutions)):
        sections.append(page.Text("", findings))
    sections += _tables(scores, evolutions)
    if others:
        rows = [list(row.values()) for row in others]
        sections.append(page.Table("Other results of the strategy", list(others[0]), rows))
    films = {path.name: FILM for path in directory.figures.glob("*.gif")}
    captions = {**study.captions, **films, **CAPTIONS}
    sections += page.images(directory.figures, captions, wide=[FRONT])
    titles = {SCORES: "Tuned settings", UNSEEN: "Tuned settings on unseen tasks"}
    for name, each in scores.items():
        sections += tables.tuned_settings(each, titles[name])
    if generations := max(map(len, records.values())):
        title, subtitle = f"Evolving {study.problem.title}", f"{generations} generations"
    else:
        judged_on = dict.fromkeys(task for each in scores.values() for task in each.tasks)
        title, subtitle = f"Judging {study.problem.title}", f"judged on {', '.join(judged_on)}"
    if evolutions is not None:
        subtitle = f"{len(evolutions.members)} evolutions, {subtitle}"
    sections += page.about(saved)
    page.write_report(directory.report_path, title, subtitle, sections, show=show)


def _records_of(directory: RunDirectory, evolutions: Evolutions | None) -> Records:
    if evolutions is None:
        return {"": directory.read_metrics("generation")}
    return {f"seed {each.seed}": each.records for each in evolutions.members}


def _last(records: Records) -> list[PlainMapping]:
    """Return the record of the last generation of each evolution that has any."""
    return [each[-1] for each in records.values() if each]


def _others(directory: RunDirectory) -> list[dict[str, int | float | str]]:
    """Return other results of the strategy than the best."""
    path = directory.others_path
    kind = list[dict[str, int | float | str]]
    return checks.check(kind, read_json(path), str(path)) if path.exists() else []


def _draw_found(study: Study, directory: RunDirectory) -> tuple[MetaParams, Path | None]:
    """Draw the result; return it, and its path if `metaevo.load` can read it."""
    found, about = checkpoint.load_tree(directory.meta_params)
    study.draw(found, directory.figures)
    past = checkpoint.history(directory.path)
    if past is not None and len(past.generations) > 2:
        from metaevo.reports import film

        film.animate(
            lambda index, folder: study.draw_frame(past.at(index), folder),
            past.generations.tolist(),
            directory.read_metrics("generation"),
            directory.figures,
        )
    return found, directory.path if is_loadable(about) else None


def _draw_numbers(
    figures: Path, records: Records, scores: Mapping[str, Scores], evolutions: Evolutions | None
) -> None:
    """Draw the fitness and the judgements."""
    own = scores.get(SCORES)
    baseline = {}
    if own is not None and own.baselines and own.pooled:
        # of hand-written parts with the hyperparameters of candidates
        untuned = {name: own.held_out_of(name, untuned=True).mean() for name in own.baselines}
        best = max(untuned, key=lambda name: untuned[name])
        baseline = {f"{best}, untuned": untuned[best]}
    if _last(records):
        chosen = "" if evolutions is None else f"seed {evolutions.chosen.seed}"
        plots.plot_fitness(records, figures / FITNESS, chosen=chosen, baseline=baseline)
    for name, each in scores.items():
        if each.pooled:
            each.plot(figures / PICTURES[name])
    if own is not None and own.curves is not None and own.curves.size:
        judgement.plot_curves(own, figures / CURVES)


def _findings(
    study: Study,
    saved: PlainMapping,
    found: MetaParams,
    records: Records,
    evolutions: Evolutions | None,
) -> Iterator[str]:
    """Yield sentences that describe the result."""
    if evolutions is not None:
        yield evolutions.text()
    elif lesson := trouble(records[""], saved["config"]["strategy"]["population_size"]):
        yield f"Warning: {lesson}."
    yield from study.findings(found)
    if numbers := evolved_numbers(found, FEW):
        listed = [f"{name or 'its number'} = {value:.4g}" for name, value in numbers.items()]
        yield f"Evolved: {', '.join(listed)}."


def _tables(scores: Mapping[str, Scores], evolutions: Evolutions | None) -> Iterator[page.Table]:
    if evolutions is not None:
        yield evolutions.table(scores)
    if (own := scores.get(SCORES)) is not None:
        if len(own.tasks) > 1:
            yield tables.by_task(own, "Tasks of the evolution", is_unseen=False)
        else:
            yield tables.contenders(own)
    if (unseen := scores.get(UNSEEN)) is not None:
        yield tables.by_task(unseen, "Unseen tasks", is_unseen=True)


def _facts(
    saved: PlainMapping, records: Records, scores: Mapping[str, Scores], source: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield start time, command, frames, and how to load the result."""
    about = saved["environment"]
    if about.get("started"):
        yield "started", f"{datetime.fromisoformat(about['started']):%d %B %Y, %H:%M %Z}"
    if about.get("command_line"):
        program, *rest = str(about["command_line"]).split(" ", 1)
        yield "command", " ".join([Path(program).name, *rest])
    if last := _last(records):
        yield "frames of evolution", f"{sum(each['frames'] for each in last):,}"
    if judged := sum(each.frames for each in scores.values()):
        yield "frames of tuning and comparison", f"{judged:,}"
    if source is not None:
        yield "load it", f'metaevo.load("{source}")'
