"""Conclude a run of evolution with the held-out comparison, figures and the report."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from metaevo.components import discovery
from metaevo.components.component import LEARNED
from metaevo.config import checks, to_dict
from metaevo.config.files import read_json, write_json_atomic
from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.evolution.trouble import trouble
from metaevo.reports import animation, layout, page, plots
from metaevo.runs import checkpoint, history
from metaevo.runs.quick import NOTE, is_quick, mark
from metaevo.runs.run import Run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, JudgedUnseen, Unseen
from metaevo.studies import unseen_report, verdict
from metaevo.studies.study import Study

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


def conclude(study: Study, run: Run) -> None:
    """Judge the result, and write figures and report.

    Args:
        study: the study that was evolved.
        run: a run with all generations done.
    """
    run.save_as_it_goes()
    directory = run.directory
    records = directory.read_metrics("generation")
    found, source = _draw_found(study, directory, records)
    result = study.compare(
        {LEARNED: found},
        directory.path,
        evolution_frames=records[-1]["frames"] if records else 0,
        measured=run.resolved,
        check_stop=run.check_stop,
    )
    if result is not None:
        keep_result(run, result, records[-1]["seconds"] if records else 0.0)
    write_report(study, directory, found, source)
    print(f"report: {directory.report_path}")


def present(study: Study, run: Run) -> None:
    """Draw and report one evolution of several, which are compared together elsewhere."""
    records = run.directory.read_metrics("generation")
    found, source = _draw_found(study, run.directory, records)
    write_report(study, run.directory, found, source, quiet=True)


def _draw_found(
    study: Study, directory: RunDirectory, records: Sequence[PlainMapping]
) -> tuple[MetaParams, Path | None]:
    """Draw fitness and result; return the result, and its path if `metaevo.load` can read it."""
    if records:
        plots.plot_fitness(records, directory.figures / FITNESS)
    found, about = checkpoint.load_tree(directory.meta_params)
    study.draw(found, directory.figures)
    _animate(study, directory, records)
    return found, directory.path if discovery.is_loadable(about) else None


def _animate(study: Study, directory: RunDirectory, records: Sequence[PlainMapping]) -> None:
    """Animate the study's figures over the generations."""
    past = history.read(directory.path)
    if past is not None:
        animation.animate(
            lambda index: study.draw_frame(past.at(index), directory.figures),
            past.generations.tolist(),
            records,
            directory.figures,
        )


def keep_result(run: Run, result: HeldOut, seconds: float) -> None:
    """Write evaluation.json, and log the scores of every variant.

    Args:
        run: the run that was judged.
        result: the content of evaluation.json.
        seconds: duration of the run so far.
    """
    rows, per_agent = result["variants"], result["frames_per_agent"]
    frames = [row["tuning_frames"] + row["seeds"] * per_agent for row in rows]
    run.log_evaluation(rows, frames, seconds)
    write_json_atomic(run.directory.evaluation_path, {**result, **mark(to_dict(run.settings))})


def write_report(
    study: Study,
    directory: RunDirectory,
    found: MetaParams,
    source: Path | None,
    *,
    quiet: bool = False,
) -> None:
    """Write report.html and the figures of its numbers, and print the tables and the verdict.

    Args:
        study: the study that was evolved.
        directory: the directory of the run, or of a comparison on another task.
        found: the meta-parameters.
        source: the directory from which `metaevo.load` reads them; None if it cannot.
        quiet: do not print.
    """
    saved = directory.read_config()
    records = directory.read_metrics("generation")
    quick = is_quick(saved["config"])
    result: HeldOut | None = None
    unseen: Unseen | None = None
    drawn: dict[str, str] = {}
    if directory.evaluation_path.exists():
        result, unseen = read_result(directory.evaluation_path)
    if unseen is not None:
        drawn = unseen_report.draw(unseen, directory.figures)
    if result is not None:
        _draw(result, records, directory)
    findings = study.findings(found, result or {})
    if numbers := verdict.evolved_numbers(found):
        findings = [*findings, verdict.numbers_text(numbers)]
    own = study.tables(result) if result is not None else []
    tasks = unseen_report.tasks_of(result)
    tables = [verdict.contenders(result), *unseen_report.tables_of(result)] if result else []
    if unseen is not None:
        tables.append(unseen_report.table(unseen))
    if lesson := trouble(records, saved["config"]["strategy"]["population_size"]):
        findings = [f"Warning: {lesson}.", *findings]
    if not quiet:
        words = [] if result is None else [verdict.conclusion_text(result, tasks)]
        words += [] if unseen is None else [unseen_report.conclusion_text(unseen)]
        words += unseen_report.in_short(result, unseen)
        print_end([*own, *tables], findings, words, quick)
    if not study.folds:
        tables = [*own, *tables]

    first: list[Any] = []
    if quick:
        first.append(layout.Banner("quick", QUICK, "", [NOTE]))
    if not quick and (short := unseen_report.in_short(result, unseen)):
        first.append(page.Text("", short))
    if unseen is not None and not quick:
        first.append(unseen_report.banner(unseen))
    if result is not None and not quick:
        judged = verdict.outcome(result, tasks)
        against = f"{judged.difference} against {verdict.best_function(result)}"
        first.append(
            layout.Banner(
                judged.conclusion,
                judged.conclusion.upper(),
                against,
                [judged.sentence, judged.budget],
            )
        )
    first.append(facts_of(saved, records, result, source))
    of_curves = caption_of_curves(result, saved["config"])
    captions = {**CAPTIONS, **study.captions, **drawn, **of_curves}
    images = {path.name: page.Image("", path, captions.get(path.name, captions["curves"]))
              for path in pictures(directory, list(study.captions))}  # fmt: skip
    top = [name for name in images if name in study.captions or name == SCORES] or [*images][:1]
    if top:
        first.append(layout.Beside([images.pop(name) for name in top]))
    if findings:
        first.append(page.Text("", findings))
    films = sorted(directory.figures.glob("*.gif"))
    first += [page.Image("How it evolved", path, FILM_CAPTION) for path in films]
    rest: list[Any] = [page.Image(heading(name), each.path, each.caption)
                       for name, each in images.items()]  # fmt: skip
    folded = fold(study.folds, own, saved)
    if unseen is not None:
        folded.insert(0, unseen_report.folded(unseen))
    if result is not None and "seen" in result:
        folded.insert(0, unseen_report.folded(result["seen"], unseen_report.OF_EVOLUTION))
    title, subtitle = study.title(len(records))
    page.write_report(directory.report_path, title, subtitle, [*first, *tables, *rest, *folded])


def read_result(path: Path) -> tuple[HeldOut | None, Unseen | None]:
    """Read evaluation.json: the comparison, and the comparison on unseen tasks."""
    content = read_json(path)
    if isinstance(content, dict) and content.get("variants") == []:
        return None, checks.check(JudgedUnseen, content, str(path))["unseen"]
    result = checks.check(HeldOut, content, str(path))
    return result, result.get("unseen")


def fold(heading: str, own: list[page.Table], saved: PlainMapping) -> list[Any]:
    """Return the folded end of a report: the study's tables, settings and environment."""
    folded: list[Any] = [layout.Folded(heading, own)] if own and heading else []
    folded.append(page.KeyValues("Settings", saved["config"]))
    folded.append(page.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    return folded


def print_end(tables: list[page.Table], findings: list[str], words: list[str], quick: bool) -> None:
    """Print tables, findings and the verdict; a quick look has no verdict."""
    paragraphs = [*findings, *([f"{QUICK}. {NOTE}"] if quick else words)]
    for table in tables:
        print(f"\n{table.text()}")
    for paragraph in paragraphs:
        print(f"\n{page.wrapped(paragraph)}")
    print()


def _draw(result: HeldOut, records: Sequence[PlainMapping], directory: RunDirectory) -> None:
    """Draw fitness, if it was recorded, and scores."""
    if records:
        plots.plot_fitness(records, directory.figures / FITNESS, baseline=reference_of(result))
    unseen_report.draw_scores(result, directory.figures / SCORES, "fitness")


def reference_of(result: HeldOut) -> dict[str, float]:
    """Return the mean fitness of hand-written parts with the hyperparameters of candidates."""
    untuned = [
        row
        for row in result["variants"]
        if not row["tuning_frames"] and not plots.is_learned(row["name"])
    ]
    if not untuned:
        return {}
    best = max(untuned, key=lambda row: float(row["mean"]))
    return {f"{best['function']}, not tuned, held-out seeds": best["mean"]}


def caption_of_curves(result: HeldOut | None, config: PlainMapping) -> dict[str, str]:
    """Return the caption of the learning curves: the quantity shown, and the fitness."""
    default = "return of finished episodes"
    shown = result.get("curves", default) if result else default
    weights = {name: weight for name, weight in config.get("fitness", {}).items() if weight}
    judged = " + ".join(f"{weight:g} x {name}" for name, weight in weights.items())
    text = f"Learning curves on held-out seeds: {shown}, mean and 95% interval."
    return {"curves": text + (f" The run is judged by {judged}." if judged else "")}


def facts_of(
    saved: PlainMapping,
    records: Sequence[PlainMapping],
    result: HeldOut | None,
    source: Path | None,
) -> layout.Facts:
    """Return the facts under the title: start time, command, frames, and how to load the result.

    Args:
        saved: config.yaml.
        records: records of the generations.
        result: the content of evaluation.json, or None.
        source: as for `write_report`.
    """
    about, facts = saved["environment"], {}
    if about.get("started"):
        facts["started"] = f"{datetime.fromisoformat(about['started']):%d %B %Y, %H:%M %Z}"
    if about.get("command_line"):
        program, *rest = str(about["command_line"]).split(" ", 1)
        facts["command"] = " ".join([Path(program).name, *rest])
    frames = [f"{records[-1]['frames']:,} of evolution"] if records else []
    if result is not None:
        rows, per_agent = result["variants"], result.get("frames_per_agent", 0)
        spent = sum(row["tuning_frames"] + row["seeds"] * per_agent for row in rows)
        frames.append(f"{spent:,} of tuning and comparison")
    if frames:
        facts["frames"] = ", ".join(frames)
    if source is not None:
        facts["load it"] = f'metaevo.load("{source}")'
    return layout.Facts(facts, code=("command", "load it"))


def pictures(directory: RunDirectory, first: list[str]) -> list[Path]:
    """Return the paths of the figures, with the study's figures first."""
    names = sorted(path.name for path in directory.figures.glob("*.png"))
    order = [*first, SCORES, FITNESS]
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    return [directory.figures / name for name in names]


def heading(name: str) -> str:
    """Return the heading of a figure."""
    return Path(name).stem.replace("_", " ").capitalize()
