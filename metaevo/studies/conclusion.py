"""The end of an evolution, or of several: judgements, figures and the report."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from metaevo.config import PlainMapping
from metaevo.config.files import read_json
from metaevo.evolution.problem import MetaParams
from metaevo.judging import tables
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.parts.records import is_loadable
from metaevo.reports import page, plots
from metaevo.runs import checkpoint
from metaevo.runs.run import Run
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.study import Study, evolved_numbers

if TYPE_CHECKING:
    from metaevo.studies.evolutions import Evolutions

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


class Result(NamedTuple):
    """What a report is about."""

    meta_params: MetaParams
    source: Path | None
    """a run from which `metaevo.load` reads them; None if it cannot"""
    scores: Mapping[str, Scores]
    """by the name of the judgement, as from `Study.compare`"""
    evolutions: "Evolutions | None" = None
    """if there are several"""


def conclude(study: Study, run: Run) -> None:
    """Judge the result of a run with all generations done, and write figures and report."""
    directory, evolutions = run.directory, None
    if run.settings.run.evolution_seeds > 1:
        from metaevo.studies.evolutions import Evolutions

        evolutions = Evolutions(directory.path, study)
        evolutions.save_chosen(directory)
    found, about = checkpoint.load_tree(directory.meta_params)
    chosen = directory if evolutions is None else evolutions.chosen.directory
    generations = chosen.read_metrics("generation")
    study.draw(found, directory.figures, generations)
    past = checkpoint.history(chosen.path)
    if past is not None and len(past.generations) > 2:
        from metaevo.reports import film

        film.animate(
            lambda index: study.pictures(past.at(index)),
            past.generations.tolist(),
            generations,
            directory.figures,
        )
    scores: dict[str, Scores] = {}
    learned = {LEARNED: found} if evolutions is None else evolutions.learned()
    has_verdict = not run.settings.run.quick
    for name, each in study.compare(learned, directory.path, check_stop=run.stop.check):
        scores[name] = each
        if name == SCORES and has_verdict and study.problem.unseen() is not None:
            table = f"{each.table()}\n" if each.pooled else ""
            print(f"\n{tables.verdict(each).text()}\n\n{table}", flush=True)  # training goes on
    own = scores.get(SCORES)
    if own is not None and own.pooled:
        rows = []
        for name in own.contenders:
            iqm, interval = own.iqm(name)
            rows.append({"name": name, "iqm": iqm, "interval": interval})
        records = _records_of(directory, evolutions).values()
        seconds = sum(each[-1]["seconds"] for each in records if len(each))
        run.log_evaluation(rows, [own.frames // len(rows)] * len(rows), seconds)
    source = directory.path if is_loadable(about) else None
    write_report(study, directory, Result(found, source, scores, evolutions))


def write_report(study: Study, directory: RunDirectory, result: Result) -> None:
    """Write report.html and the figures of its numbers, and print the tables and the verdict.

    `directory` belongs to the run, or to a judgement on another task.
    """
    scores, evolutions = result.scores, result.evolutions
    saved, records = directory.read_config(), _records_of(directory, evolutions)
    chosen = directory if evolutions is None else evolutions.chosen.directory
    others: list[PlainMapping] = []
    if chosen.others_path.exists():
        others += read_json(chosen.others_path, list[dict[str, int | float | str]])
    if others and {"length", "score"} <= others[0].keys():
        from metaevo.reports.results import draw_front

        plots.save_figure(draw_front(others), directory.figures / FRONT)
    _draw_numbers(directory.figures, records, result)
    sections: list[page.Section] = []
    verdicts = [tables.verdict(each, is_unseen=name == UNSEEN)
                for name, each in scores.items() if each.baselines]  # fmt: skip
    facts = [list(each) for each in _facts(saved, records, result)]
    sections.append(page.Table("", ["", ""], facts))
    if findings := list(_findings(study, saved, records, result)):
        sections.append(page.Text("", findings))
    if evolutions is not None:
        sections.append(evolutions.table(scores))
    for name, each in scores.items():
        is_unseen = name == UNSEEN
        if is_unseen or len(each.tasks) > 1:
            title = "Unseen tasks" if is_unseen else "Tasks of the evolution"
            sections.append(tables.by_task(each, title, is_unseen=is_unseen))
        else:
            sections.append(tables.contenders(each))
    if others:
        rows = [list(row.values()) for row in others]
        sections.append(page.Table("Other results of the strategy", list(others[0]), rows))
    for name, each in scores.items():
        heading = f"Tuned settings{' on unseen tasks' if name == UNSEEN else ''}"
        sections += tables.tuned_settings(each, heading)
    if generations := max(map(len, records.values())):
        title, subtitle = f"Evolving {study.problem.title}", f"{generations} generations"
    else:
        judged_on = dict.fromkeys(task for each in scores.values() for task in each.tasks)
        title, subtitle = f"Judging {study.problem.title}", f"judged on {', '.join(judged_on)}"
    if evolutions is not None:
        subtitle = f"{len(evolutions.members)} evolutions, {subtitle}"
    films = {path.name: FILM for path in directory.figures.glob("*.gif")}
    captions = {**study.captions, **films, **CAPTIONS}
    page.write_run_report(directory, title, subtitle, verdicts, sections, captions, [FRONT])


def _records_of(directory: RunDirectory, evolutions: "Evolutions | None") -> dict[str, Any]:
    """Return the records of the generations by evolution."""
    if evolutions is None:
        return {"": directory.read_metrics("generation")}
    return {f"seed {each.seed}": each.records for each in evolutions.members}


def _draw_numbers(figures: Path, records: Mapping[str, Any], result: Result) -> None:
    """Draw the fitness and the judgements."""
    own, baseline = result.scores.get(SCORES), {}
    if own is not None and own.baselines and own.pooled:
        # of hand-written parts with the hyperparameters of candidates
        untuned = {name: own.untuned(name) for name in own.baselines}
        best = max(untuned, key=lambda name: untuned[name])
        baseline = {f"{best}, untuned": untuned[best]}
    if any(map(len, records.values())):
        chosen = "" if result.evolutions is None else f"seed {result.evolutions.chosen.seed}"
        fitness = plots.draw_fitness(records, chosen=chosen, baseline=baseline)
        plots.save_figure(fitness, figures / FITNESS)
    for name, each in result.scores.items():
        if each.pooled:
            each.plot(figures / PICTURES[name])
    if own is not None and own.curves is not None and own.curves.size:
        plots.save_figure(tables.draw_curves(own), figures / CURVES)


def _findings(
    study: Study, saved: PlainMapping, records: Mapping[str, Any], result: Result
) -> Iterator[str]:
    """Yield sentences that describe the result."""
    if result.evolutions is not None:
        yield result.evolutions.text()
    elif lesson := trouble(records[""], saved["config"]["strategy"]["population_size"]):
        yield f"Warning: {lesson}."
    yield from study.findings(result.meta_params)
    if numbers := evolved_numbers(result.meta_params, FEW):
        listed = [f"{name or 'its number'} = {value:.4g}" for name, value in numbers.items()]
        yield f"Evolved: {', '.join(listed)}."


def _facts(
    saved: PlainMapping, records: Mapping[str, Any], result: Result
) -> Iterator[tuple[str, str]]:
    """Yield start time, command, frames, and how to load the result."""
    about = saved["environment"]
    yield "started", f"{datetime.fromisoformat(about['started']):%d %B %Y, %H:%M %Z}"
    program, *rest = about["command_line"].split(" ", 1)
    yield "command", " ".join([Path(program).name, *rest])
    if frames := sum(each[-1]["frames"] for each in records.values() if len(each)):
        yield "frames of evolution", f"{frames:,}"
    if judged := sum(each.frames for each in result.scores.values()):
        yield "frames of tuning and comparison", f"{judged:,}"
    if result.source is not None:
        yield "load it", f'metaevo.load("{result.source}")'


def trouble(records: Sequence[PlainMapping], population_size: int) -> str | None:
    """Return why an evolution has not learned, by its records; None if no problem is found."""
    count = len(records)
    if not count:
        return None
    failed = sum(int(each["diverged"]) == population_size for each in records)
    if failed:
        return (
            f"every candidate failed (its fitness was not finite) in {failed} of {count} "
            "generations, from which nothing can be learned"
        )
    tied = sum(bool(each["tied"]) for each in records)
    if 2 * tied >= count:
        return (
            f"all candidates had the same fitness in {tied} of {count} generations, from which "
            "nothing can be learned: it may need a larger sigma, longer training or another fitness"
        )
    return None
