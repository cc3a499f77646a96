"""Conclude one evolution or several with the held-out comparison, figures and the report."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config import checks, to_dict
from metaevo.config.files import read_json, write_json_atomic
from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.evolution.trouble import trouble
from metaevo.parts.part import LEARNED
from metaevo.parts.resolve import is_loadable
from metaevo.reports import animation, layout, page, plots
from metaevo.reports.evolution_plots import plot_evolutions
from metaevo.runs import checkpoint, history
from metaevo.runs.quick import NOTE, is_quick, mark
from metaevo.runs.run import Run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, JudgedUnseen, Unseen
from metaevo.studies import strategy_results, tables, verdict
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.study import Study
from metaevo.tasks.fitness import weights_text

FILM_CAPTION = (
    "What was found after some of the generations, on axes that stay the same, and its fitness."
)
QUICK = "Quick look: too few seeds to conclude"
FITNESS, SCORES = "fitness.png", "scores.png"
CAPTIONS = {
    FITNESS: "Fitness over the generations; the best candidate is the luckiest one.",
    SCORES: "Interquartile mean on held-out seeds with 95% bootstrap intervals, and differences "
    "from the strongest hand-written contender.",
}
CAPTIONS_OF_SEVERAL = {
    FITNESS: "Fitness of every evolution on its validation seeds; the thick one is the best there.",
    SCORES: "What every evolution found: interquartile mean on the same held-out seeds with 95% "
    "bootstrap intervals, and differences from the strongest hand-written contender. The interval "
    "of all evolutions takes the evolution as the unit.",
}


Records = Mapping[str, Sequence[PlainMapping]]
"""Records of the generations by evolution."""


class _Outcome(NamedTuple):
    """What a report shows of a run, or of a comparison with other settings."""

    records: Records
    result: HeldOut | None
    unseen: Unseen | None
    evolutions: Evolutions | None
    """None for a single one"""


def conclude(study: Study, run: Run, evolutions: Evolutions | None = None) -> None:
    """Judge the result of a run with all generations done, and write figures and report."""
    run.save_as_it_goes()
    directory = run.directory
    if evolutions is not None:
        evolutions.save_chosen(directory)
    found, source = _draw_found(study, directory)
    last = _last(_records_of(directory, evolutions))
    result = study.compare(
        {LEARNED: found} if evolutions is None else evolutions.learned(),
        directory.path,
        evolution_frames=max((each["frames"] for each in last), default=0),
        measured=run.resolved,
        check_stop=run.check_stop,
    )
    if result is not None:
        if evolutions is not None:
            result["evolutions"] = evolutions.judged(result)
        _keep_result(run, result, sum(each["seconds"] for each in last))
    write_report(study, directory, found, source, evolutions=evolutions)
    print(f"report: {directory.report_path}")


def present(study: Study, run: Run) -> None:
    """Draw and report one evolution of several, which are compared together elsewhere."""
    found, source = _draw_found(study, run.directory)
    write_report(study, run.directory, found, source, quiet=True)


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


def _keep_result(run: Run, result: HeldOut, seconds: float) -> None:
    run.log_evaluation(result["variants"], _frames_of_variants(result), seconds)
    write_json_atomic(run.directory.evaluation_path, {**result, **mark(to_dict(run.settings))})


def _frames_of_variants(result: HeldOut) -> list[int]:
    per_agent = result.get("frames_per_agent", 0)
    return [row["tuning_frames"] + row["seeds"] * per_agent for row in result["variants"]]


def write_report(
    study: Study,
    directory: RunDirectory,
    found: MetaParams,
    source: Path | None,
    *,
    evolutions: Evolutions | None = None,
    quiet: bool = False,
) -> None:
    """Write report.html and the figures of its numbers, and print the tables and the verdict.

    `directory` belongs to the run, or to a comparison on another task. `metaevo.load` reads the
    meta-parameters `found` from `source`; it is None if it cannot.
    """
    saved = directory.read_config()
    result, unseen = None, None
    if directory.evaluation_path.exists():
        result, unseen = read_result(directory.evaluation_path)
    outcome = _Outcome(_records_of(directory, evolutions), result, unseen, evolutions)
    quick = is_quick(saved["config"])
    captions = {**CAPTIONS, **(CAPTIONS_OF_SEVERAL if evolutions else {}), **study.captions}
    captions |= strategy_results.CAPTIONS
    captions |= _draw(directory.figures, outcome)
    chosen = directory if evolutions is None else evolutions.chosen.directory
    strategy_results.draw(chosen, directory.figures)
    captions |= _caption_of_curves(result, saved["config"])
    findings = _findings(study, saved, found, outcome)
    shown = study.tables(result) if result is not None else []
    shown += _tables(outcome)
    shown += strategy_results.tables(chosen)
    if evolutions is not None:
        findings = [evolutions.text(), *findings]
    first: list[Any] = [layout.Banner("quick", QUICK, "", [NOTE])] if quick else _verdicts(outcome)
    if not quiet:
        _print(shown, findings, first)
    first.append(_facts(saved, outcome, source))
    images = {path.name: page.Image("", path, captions.get(path.name, captions["curves"]))
              for path in _pictures(directory, list(study.captions))}  # fmt: skip
    on_top = {FITNESS, SCORES} if evolutions else {*study.captions, SCORES}
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
    folded: list[Any] = []
    if result is not None and "seen" in result:
        folded.append(tables.tuned_settings_by_task(result["seen"], verdict.OF_EVOLUTION))
    if unseen is not None:
        folded.append(tables.tuned_settings_by_task(unseen, verdict.UNSEEN))
    folded.append(page.KeyValues("Settings", saved["config"]))
    folded.append(page.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    title, subtitle = study.title(max(map(len, outcome.records.values())))
    if evolutions is not None:
        subtitle = f"{len(evolutions.members)} evolutions, {subtitle}"
    page.write_report(directory.report_path, title, subtitle, [*first, *shown, *rest, *folded])


def read_result(path: Path) -> tuple[HeldOut | None, Unseen | None]:
    """Read evaluation.json: the comparison, and the comparison on unseen tasks."""
    content = read_json(path)
    if isinstance(content, dict) and content.get("variants") == []:
        return None, checks.check(JudgedUnseen, content, str(path))["unseen"]
    result = checks.check(HeldOut, content, str(path))
    return result, result.get("unseen")


def _draw(figures: Path, outcome: _Outcome) -> dict[str, str]:
    records, result, unseen, evolutions = outcome
    baseline = _reference(result) if result is not None else {}
    if evolutions is not None and _last(outcome.records):
        chosen = f"seed {evolutions.chosen.seed}"
        plot_evolutions(records, figures / FITNESS, chosen=chosen, baseline=baseline)
    elif _last(outcome.records):
        plots.plot_fitness(records[""], figures / FITNESS, baseline=baseline)
    if result is not None:
        tables.draw_scores(result, figures / SCORES, "fitness")
    return tables.draw_tasks(unseen, figures) if unseen is not None else {}


def _reference(result: HeldOut) -> dict[str, float]:
    """Return the mean fitness of hand-written parts with the hyperparameters of candidates."""
    untuned = [
        row
        for row in result["variants"]
        if not row["tuning_frames"] and not plots.is_learned(row["name"])
    ]
    if not untuned:
        return {}
    best = max(untuned, key=lambda row: float(row["mean"]))
    return {f"{best['function']}, not tuned, mean of held-out seeds": best["mean"]}


def _findings(study: Study, saved: PlainMapping, found: MetaParams, outcome: _Outcome) -> list[str]:
    findings = study.findings(found, outcome.result or {})
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
    _, result, unseen, evolutions = outcome
    found = [] if evolutions is None else [evolutions.table(result)]
    if result is not None:
        found.append(tables.contenders(result))
        if "seen" in result:
            found.append(tables.by_task(result["seen"], "Tasks of the evolution", is_unseen=False))
        else:
            found += tables.tuned_settings(result)
    if unseen is not None:
        found.append(tables.by_task(unseen, "Unseen tasks", is_unseen=True))
    return found


def _verdicts(outcome: _Outcome) -> list[layout.Banner]:
    """Return the verdicts for the top of the report and for the terminal."""
    _, result, unseen, _ = outcome
    found = []
    if unseen is not None:
        found.append(verdict.unseen_banner(unseen))
    if result is not None:
        found.append(verdict.banner(result, verdict.tasks_of(result)))
    return found


def _print(shown: list[page.Table], paragraphs: list[str], first: list[layout.Banner]) -> None:
    """Print tables, findings, and the banners at the top of the report."""
    for each in first:
        paragraphs = [*paragraphs, f"{each.word.capitalize()}: {' '.join(each.paragraphs)}"]
    for table in shown:
        print(f"\n{table.text()}")
    for paragraph in paragraphs:
        print(f"\n{page.wrapped(paragraph)}")
    print()


def _caption_of_curves(result: HeldOut | None, config: PlainMapping) -> dict[str, str]:
    """Return the caption of the learning curves: the quantity shown, and the fitness."""
    default = "return of finished episodes"
    shown = result.get("curves", default) if result else default
    judged = weights_text(config.get("fitness", {}))
    text = f"Learning curves on held-out seeds: {shown}, mean and 95% interval."
    return {"curves": text + (f" The run is judged by {judged}." if judged else "")}


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
    if outcome.result is not None:
        frames.append(f"{sum(_frames_of_variants(outcome.result)):,} of tuning and comparison")
    if frames:
        facts["frames"] = ", ".join(frames)
    if source is not None:
        facts["load it"] = f'metaevo.load("{source}")'
    return layout.Facts(facts, code=("command", "load it"))


def _pictures(directory: RunDirectory, first: list[str]) -> list[Path]:
    """Return the paths of the figures, with the study's figures first."""
    names = sorted(path.name for path in directory.figures.glob("*.png"))
    order = [*first, SCORES, FITNESS]
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    return [directory.figures / name for name in names]
