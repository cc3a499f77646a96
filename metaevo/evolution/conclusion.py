"""The end of a run of evolution: the held-out comparison, figures, the report."""

from pathlib import Path
from typing import Any

from metaevo.config import to_dict
from metaevo.held_out.evaluation import LEARNED
from metaevo.report import page, plots
from metaevo.runs import checkpoint, schema
from metaevo.runs.files import read_json, write_json_atomic
from metaevo.runs.quick import NOTE, is_quick, mark
from metaevo.runs.run import Run
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.study import Study

CAPTIONS = {
    "fitness.png": "Fitness over the generations.",
    "scores.png": "Interquartile mean on held-out seeds with 95% bootstrap intervals.",
}


def conclude(study: Study, run: Run) -> None:
    """Judge what was found, and write figures and report.

    Args:
        study: what was evolved.
        run: with all its generations done.
    """
    directory = run.directory
    records = directory.read_metrics("generation")
    if records:
        plots.plot_fitness(records, directory.figures / "fitness.png", title="")
    found, _ = checkpoint.load_tree(directory.meta_params)
    study.draw(found, directory.figures)
    result = study.compare(
        found,
        directory.path,
        evolution_frames=records[-1]["frames"] if records else 0,
        measured=run.resolved,
        check_stop=run.check_stop,
    )
    if result is not None:
        rows, per_agent = result["variants"], result["frames_per_agent"]
        run.log_evaluation(
            rows,
            [row["tuning_frames"] + row["seeds"] * per_agent for row in rows],
            records[-1]["seconds"] if records else 0.0,
        )
        write_json_atomic(directory.evaluation_path, result | mark(to_dict(run.settings)))
    write_report(study, directory)
    for path in (
        directory.report_path,
        directory.figures,
        directory.meta_params,
        directory.evaluation_path,
    ):
        if path.exists():  # there may be no figures, and no comparison
            run.tracker.log_artifact(path)
    print(f"report: {directory.report_path}")


def write_report(study: Study, directory: RunDirectory) -> None:
    """Write report.html from what lies in a run's directory, and print the tables."""
    saved = directory.read_config()
    records = directory.read_metrics("generation")
    sections: list[Any] = []
    last = []
    if is_quick(saved["config"]):
        sections.append(page.Text("A quick look", NOTE))
        last.append(NOTE)
    if directory.evaluation_path.exists():
        result = read_json(directory.evaluation_path, schema.Evaluation)
        tables = [_table(result), *study.tables(result)]
        for table in tables:
            print(f"\n{table.text()}")
        verdict = conclusion_text(result)
        sections += [page.Text("Conclusion", verdict), *tables]
        last.insert(0, verdict)
    for words in last:
        print(f"\n{page.wrapped(words)}")
    captions = {**CAPTIONS, **study.captions}
    for path in sorted(directory.figures.glob("*.png")) if directory.figures.is_dir() else []:
        caption = captions.get(
            path.name, "Learning curves on held-out seeds, mean and 95% interval."
        )
        sections.append(page.Image(_heading(path), path, caption))
    sections.append(page.KeyValues("Settings", saved["config"]))
    sections.append(page.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    title, subtitle = study.title(len(records))
    page.write_report(directory.report_path, title, subtitle, sections)


def conclusion_text(result: dict[str, Any]) -> str:
    """Say in words who won, by how much, and how sure that is."""
    rows = {row["name"]: row for row in result["variants"]}
    learned, best = rows[result["learned"]], rows[result["best_hand_written"]]
    pair = result.get("against_best")  # which comparisons of earlier versions do not have
    if pair is None:
        pair = next(each for each in result["pairs"] if each["other"] == best["name"])
    low, high = pair["difference_interval"]
    words = {
        "better": "The discovered component beats the best hand-written one",
        "worse": "The discovered component is worse than the best hand-written one",
        "undecided": "Neither the discovered component nor the best hand-written one is better",
    }
    probability = pair["probability_of_improvement"]
    budget = "neither was tuned"
    if result.get("tuning_rounds"):
        finalists, seeds = result["tuning_rounds"][-1]
        budget = (
            f"each was tuned by a race of {result['tuning_settings']} settings, the untuned one "
            f"among them, the last {finalists} on {seeds} fresh seeds "
            f"({learned['tuning_frames']:,} frames)"
        )
    elif result["tuning_settings"]:
        budget = (
            f"each was tuned over {result['tuning_settings']} settings x "
            f"{result['tuning_seeds']} seeds ({learned['tuning_frames']:,} frames)"
        )
    return (
        f"{words[pair['conclusion']]}: {learned['name']} {learned['iqm']:.4g} against "
        f"{best['name']} {best['iqm']:.4g} (IQM over {learned['seeds']} held-out seeds), "
        f"difference {pair['difference']:+.3g} with 95% interval [{low:.3g}, {high:.3g}], "
        f"probability of improvement {probability:.0%}; {budget}."
    )


def _table(result: dict[str, Any]) -> page.Table:
    pairs = {pair["other"]: pair for pair in result["pairs"]}
    rows = []
    for row in result["variants"]:
        pair = pairs.get(row["name"])
        settings = ", ".join(
            f"{key} {float('inf') if value is None else value:g}"  # JSON holds no infinity
            for key, value in row["settings"].items()
        )
        improvement = ""
        if pair is not None:
            low, high = pair["probability_interval"]
            improvement = f"{pair['probability_of_improvement']:.2f} [{low:.2f}, {high:.2f}]"
        low, high = row["interval"]
        rows.append(
            [row["name"], row["iqm"], f"[{low:.4g}, {high:.4g}]", improvement, row["diverged"],
             row["tuning_frames"], settings]
        )  # fmt: skip
    columns = [
        "variant", "IQM", "95% interval", "P(learned is better)", "diverged", "tuning frames",
        "tuned to",
    ]  # fmt: skip
    note = "P(learned is better): probability that the learned variant named in the conclusion "
    note += "scores higher than this one, with 95% interval."
    highlight = [i for i, row in enumerate(result["variants"]) if row["function"] == LEARNED]
    return page.Table("Held-out comparison", columns, rows, note=note, highlight=highlight)


def _heading(path: Path) -> str:
    return path.stem.replace("_", " ").capitalize()
