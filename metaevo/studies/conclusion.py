"""Conclude one evolution or several with the held-out comparison, figures and the report."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.evolution.trouble import trouble
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.parts.resolve import is_loadable
from metaevo.reports import animation, layout, page, plots
from metaevo.reports.evolution_plots import plot_evolutions
from metaevo.runs import checkpoint, history
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run import Run
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies import strategy_results, tables, verdict
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.study import Study

FILM_CAPTION = (
    "What was found after some of the generations, on axes that stay the same, and its fitness."
)
QUICK = "Quick look: too few seeds to conclude"
FITNESS, CURVES = "fitness.png", "learning_curves.png"
PICTURES = {SCORES: "scores.png", UNSEEN: "unseen.png"}
"""The figures of the judgements."""
CAPTIONS = {
    FITNESS: "Fitness over the generations; the best candidate is the luckiest one.",
    PICTURES[SCORES]: "Interquartile mean on held-out seeds with 95% intervals, and the score to "
    "expect of fewer settings.",
    PICTURES[UNSEEN]: "The same over all unseen tasks (scaled, if they are several of a learner: 0 "
    "is random play, 1 the tuned reference).",
    CURVES: "Learning curves on held-out seeds: mean return of the episodes that finished.",
}
FITNESS_OF_SEVERAL = (
    "Fitness of every evolution on its validation seeds; the thick one is the best there."
)


Records = Mapping[str, Sequence[PlainMapping]]
"""Records of the generations by evolution."""


class _Outcome(NamedTuple):
    """What a report shows of a run, or of a comparison with other settings."""

    records: Records
    scores: Mapping[str, Scores]
    """by name of the judgement"""
    evolutions: Evolutions | None
    """None for a single one"""


def conclude(study: Study, run: Run, evolutions: Evolutions | None = None) -> None:
    """Judge the result of a run with all generations done, and write figures and report."""
    directory = run.directory
    if evolutions is not None:
        evolutions.save_chosen(directory)
    found, source = _draw_found(study, directory)
    learned = {LEARNED: found} if evolutions is None else evolutions.learned()
    scores = study.compare(learned, directory.path, check_stop=run.check_stop)
    last = _last(_records_of(directory, evolutions))
    if SCORES in scores:
        _log(run, scores[SCORES], sum(each["seconds"] for each in last))
    write_report(study, directory, found, source, scores, evolutions=evolutions)
    print(f"report: {directory.report_path}")


def present(study: Study, run: Run) -> None:
    """Draw and report one evolution of several, which are compared together elsewhere."""
    found, source = _draw_found(study, run.directory)
    write_report(study, run.directory, found, source, {}, quiet=True)


def _records_of(directory: RunDirectory, evolutions: Evolutions | None) -> Records:
    if evolutions is None:
        return {"": directory.read_metrics("generation")}
    return {f"seed {each.seed}": each.records for each in evolutions.members}


def _last(records: Records) -> list[PlainMapping]:
    """Return the record of the last generation of each evolution that has any."""
    return [each[-1] for each in records.values() if each]


def _draw_found(study: Study, directory: RunDirectory) -> tuple[MetaParams, Path | None]:
    """Draw the result; return it, and its path if `metaevo.load` can read it."""
    found, about = checkpoint.load_tree(directory.meta_params)
    study.draw(found, directory.figures)
    past = history.read(directory.path)
    if past is not None:
        animation.animate(
            lambda index: study.draw_frame(past.at(index), directory.figures),
            past.generations.tolist(),
            directory.read_metrics("generation"),
            directory.figures,
        )
    return found, directory.path if is_loadable(about) else None


def _log(run: Run, scores: Scores, seconds: float) -> None:
    if not scores.pooled:
        return
    found = {name: scores.iqm(name) for name in scores.contenders}
    rows = [
        {"name": name, "iqm": each.value, "interval": each.interval} for name, each in found.items()
    ]
    run.log_evaluation(rows, [scores.frames // len(rows)] * len(rows), seconds)


def write_report(
    study: Study,
    directory: RunDirectory,
    found: MetaParams,
    source: Path | None,
    scores: Mapping[str, Scores],
    *,
    evolutions: Evolutions | None = None,
    quiet: bool = False,
) -> None:
    """Write report.html and the figures of its numbers, and print the tables and the verdict.

    `directory` belongs to the run, or to a judgement on another task. `metaevo.load` reads the
    meta-parameters `found` from `source`; it is None if it cannot. `scores` are what
    `study.compare` returned.
    """
    saved = directory.read_config()
    outcome = _Outcome(_records_of(directory, evolutions), scores, evolutions)
    quick = is_quick(saved["config"])
    captions = {**CAPTIONS, **study.captions, **strategy_results.CAPTIONS}
    if evolutions is not None:
        captions[FITNESS] = FITNESS_OF_SEVERAL
    _draw(directory.figures, outcome)
    chosen = directory if evolutions is None else evolutions.chosen.directory
    strategy_results.draw(chosen, directory.figures)
    findings = _findings(study, saved, found, outcome)
    shown = [*_tables(outcome), *strategy_results.tables(chosen)]
    if evolutions is not None:
        findings = [evolutions.text(), *findings]
    first: list[Any] = [layout.Banner("quick", QUICK, "", [NOTE])] if quick else _verdicts(outcome)
    if not quiet:
        _print(shown, findings, first)
    first.append(_facts(saved, outcome, source))
    images = {path.name: page.Image("", path, captions.get(path.name, ""))
              for path in _pictures(directory, list(study.captions))}  # fmt: skip
    on_top = {PICTURES[SCORES], *([FITNESS] if evolutions else study.captions)}
    top = [name for name in images if name in on_top] or [*images][:1]
    if top:
        first.append(layout.Beside([images.pop(name) for name in top]))
    if findings:
        first.append(page.Text("", findings))
    films = sorted(directory.figures.glob("*.gif"))
    first += [page.Image("How it evolved", path, FILM_CAPTION) for path in films]
    rest = [
        page.Image(Path(name).stem.replace("_", " ").capitalize(), each.path, each.caption)
        for name, each in images.items()
    ]
    titles = {SCORES: "Tuned settings", UNSEEN: "Tuned settings on unseen tasks"}
    tuned = [tables.tuned_settings(each, titles[name]) for name, each in scores.items()]
    folded: list[Any] = [each for each in tuned if each is not None]
    folded.append(page.KeyValues("Settings", saved["config"]))
    folded.append(page.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    if generations := max(map(len, outcome.records.values())):
        title, subtitle = f"Evolving {study.problem.title}", f"{generations} generations"
    else:
        judged_on = dict.fromkeys(task for each in scores.values() for task in each.tasks)
        title, subtitle = f"Judging {study.problem.title}", f"judged on {', '.join(judged_on)}"
    if evolutions is not None:
        subtitle = f"{len(evolutions.members)} evolutions, {subtitle}"
    page.write_report(directory.report_path, title, subtitle, [*first, *shown, *rest, *folded])


def _draw(figures: Path, outcome: _Outcome) -> None:
    records, scores, evolutions = outcome
    baseline = _reference(scores[SCORES]) if SCORES in scores else {}
    if evolutions is not None and _last(outcome.records):
        chosen = f"seed {evolutions.chosen.seed}"
        plot_evolutions(records, figures / FITNESS, chosen=chosen, baseline=baseline)
    elif _last(outcome.records):
        plots.plot_fitness(records[""], figures / FITNESS, baseline=baseline)
    for name, each in scores.items():
        if each.pooled:
            each.plot(figures / PICTURES[name])
    own = scores.get(SCORES)
    if own is not None and own.curves is not None and own.curves.size:
        own.plot_curves(figures / CURVES)


def _reference(scores: Scores) -> dict[str, float]:
    """Return the mean fitness of hand-written parts with the hyperparameters of candidates."""
    if not scores.baselines or not scores.pooled:
        return {}
    untuned = {name: scores.untuned(name) for name in scores.baselines}
    best = max(untuned, key=lambda name: untuned[name])
    return {f"{best}, not tuned, mean of held-out seeds": untuned[best]}


def _findings(study: Study, saved: PlainMapping, found: MetaParams, outcome: _Outcome) -> list[str]:
    findings = study.findings(found)
    if numbers := tables.evolved_numbers(found):
        listed = [f"{name or 'its number'} = {value:.4g}" for name, value in numbers.items()]
        findings = [*findings, f"Evolved: {', '.join(listed)}."]
    if outcome.evolutions is not None:
        seed = outcome.evolutions.chosen.seed
        return [f"Of seed {seed}, the best on validation seeds:", *findings] if findings else []
    if lesson := trouble(outcome.records[""], saved["config"]["strategy"]["population_size"]):
        findings = [f"Warning: {lesson}.", *findings]
    return findings


def _tables(outcome: _Outcome) -> list[page.Table]:
    scores, evolutions = outcome.scores, outcome.evolutions
    found = [] if evolutions is None else [evolutions.table(scores)]
    if (own := scores.get(SCORES)) is not None:
        title = "Tasks of the evolution"
        found.append(
            tables.by_task(own, title, is_unseen=False)
            if len(own.tasks) > 1
            else tables.contenders(own)
        )
    if (unseen := scores.get(UNSEEN)) is not None:
        found.append(tables.by_task(unseen, "Unseen tasks", is_unseen=True))
    return found


def _verdicts(outcome: _Outcome) -> list[layout.Banner]:
    """Return the verdicts for the top of the report and for the terminal."""
    return [
        verdict.banner(each, is_unseen=name == UNSEEN)
        for name, each in outcome.scores.items()
        if each.baselines
    ]


def _print(shown: list[page.Table], paragraphs: list[str], first: list[layout.Banner]) -> None:
    """Print tables, findings, and the banners at the top of the report."""
    for each in first:
        paragraphs = [*paragraphs, f"{each.word.capitalize()}: {' '.join(each.paragraphs)}"]
    for table in shown:
        print(f"\n{table.text()}")
    for paragraph in paragraphs:
        print(f"\n{page.wrapped(paragraph)}")
    print()


def _facts(saved: PlainMapping, outcome: _Outcome, source: Path | None) -> layout.Facts:
    """Return the facts under the title: start time, command, frames, and how to load the result."""
    about, facts = saved["environment"], {}
    if about.get("started"):
        facts["started"] = f"{datetime.fromisoformat(about['started']):%d %B %Y, %H:%M %Z}"
    if about.get("command_line"):
        program, *rest = str(about["command_line"]).split(" ", 1)
        facts["command"] = " ".join([Path(program).name, *rest])
    frames = []
    if _last(outcome.records):
        frames.append(f"{sum(each['frames'] for each in _last(outcome.records)):,} of evolution")
    if judged := sum(each.frames for each in outcome.scores.values()):
        frames.append(f"{judged:,} of tuning and comparison")
    if frames:
        facts["frames"] = ", ".join(frames)
    if source is not None:
        facts["load it"] = f'metaevo.load("{source}")'
    return layout.Facts(facts, code=("command", "load it"))


def _pictures(directory: RunDirectory, first: list[str]) -> list[Path]:
    """Return the paths of the figures, with the study's figures first."""
    names = sorted(path.name for path in directory.figures.glob("*.png"))
    order = [*first, *PICTURES.values(), FITNESS]
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    return [directory.figures / name for name in names]
