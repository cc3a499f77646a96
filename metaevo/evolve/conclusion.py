"""The end of a run of evolution: the held-out comparison, figures, the report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaevo.components import discovery
from metaevo.config import to_dict
from metaevo.held_out import policy_loss as policy_loss_study
from metaevo.held_out.evaluation import LEARNED
from metaevo.held_out.protocol import compare
from metaevo.report import page as report
from metaevo.report import plots
from metaevo.runs.quick import NOTE, is_quick, mark
from metaevo.runs.run_directory import RunDirectory, read_json, write_json_atomic
from purerl.learners import LEARNERS, num_frames

if TYPE_CHECKING:
    from metaevo.evolve.run import EvolutionRun


def finish(this: "EvolutionRun", check_stop: Callable[[], None]) -> None:
    """Compare what was discovered with tuned baselines, and write figures and report.

    Args:
        this: the run, with all its generations done.
        check_stop: raises if the run is to stop; called between chunks of agents.
    """
    settings, run = this.settings, this.run
    records = run.read_metrics("generation")
    if records:
        plots.plot_fitness(records, run.figures / "fitness.png", title="")
    if this.parts.slot == "policy_loss":
        policy_loss_study.draw(
            *discovery.load(run.path), settings.hyperparams, run.figures / "policy_loss.png"
        )
    if settings.evaluation.seeds:
        _compare(this, check_stop)
    write_run_report(run)
    for path in (run.report_path, run.figures, run.meta_params, run.evaluation_path):
        if path.exists():  # without held-out seeds there is no comparison
            this.tracker.log_artifact(path)
    print(f"report: {run.report_path}")


def _compare(this: "EvolutionRun", check_stop: Callable[[], None]) -> None:
    run = this.run
    result = compare(
        this.settings,
        this.parts,
        *discovery.load(run.path),
        path=run.path,
        figures=run.figures,
        evolution_frames=this.evolution.frames(this.settings.evolution.generations),
        normalisation=this.normalisation,
        check_stop=check_stop,
    )
    _log(this, result)
    write_json_atomic(run.evaluation_path, result | mark(to_dict(this.settings)))


def _log(this: "EvolutionRun", result: dict[str, Any]) -> None:
    this.run.truncate_metrics("evaluation", -1)  # of an earlier end of this run
    generations = this.run.read_metrics("generation")
    seconds = generations[-1]["seconds"] if generations else 0.0
    for index, row in enumerate(result["variants"]):
        record = {
            "kind": "evaluation",
            "evaluation": index,
            "frames": row["tuning_frames"]
            + row["seeds"] * sum(num_frames(task.learner.config) for task in this.tasks),
            "seconds": seconds,
            "name": row["name"],
            "iqm": row["iqm"],
            "low": row["interval"][0],
            "high": row["interval"][1],
        }
        this.run.append_metrics(record)
        this.tracker.log(record)


def write_run_report(run: RunDirectory) -> None:
    """Write report.html from what lies in the run directory; print its tables and the verdict."""
    saved = run.read_config()
    records = run.read_metrics("generation")
    sections: list[Any] = []
    if is_quick(saved["config"]):
        sections.append(report.Text("A quick look", NOTE))
    if run.evaluation_path.exists():
        result = read_json(run.evaluation_path)
        table = _table(result)
        print("\n" + table.text() + "\n")
        sections += [report.Text("Conclusion", conclusion_text(result)), table]
        tables = []
        if "ablation" in result:
            tables.append(_scale_table(result, LEARNERS[saved["config"]["learner"]].loss_scale))
        if "sides" in result:
            tables.append(_sides_table(result))
        for ablation in tables:
            print(ablation.text() + "\n")
        sections += tables
        print(report.wrapped(conclusion_text(result)) + "\n")
    if is_quick(saved["config"]):
        print(report.wrapped(NOTE) + "\n")
    captions = {
        "loss.png": "The discovered loss and its derivative beside hand-written ones; grey: errors "
        "that occur half-way through training with squared error.",
        "policy_loss.png": "The discovered policy loss beside PPO's clip and DPO, for advantages "
        "of one standard deviation up and down. Above: the drift, what the objective is below "
        "ratio times advantage; below: the objective's derivative, which pushes the policy.",
        "fitness.png": "Fitness over the generations.",
        "scores.png": "Interquartile mean on held-out seeds with 95% bootstrap intervals.",
    }
    for path in sorted(run.figures.glob("*.png")) if run.figures.is_dir() else []:
        caption = captions.get(
            path.name, "Learning curves on held-out seeds, mean and 95% interval."
        )
        sections.append(report.Image(_heading(path), path, caption))
    sections.append(report.KeyValues("Settings", saved["config"]))
    sections.append(report.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    config = saved["config"]
    env = config["task"]["env"]
    component = config["evolve"].replace("_", " ")
    title = f"Evolving the {component} of {config['learner']}"
    names = env if isinstance(env, str) else ", ".join(env)
    subtitle = f"{names}, {len(records)} generations"
    if not records:  # of a transfer
        title = f"A {component} of {config['learner']} on another task"
        subtitle = f"{names} {config['task']['env_params'] or ''}"
    report.write_report(run.report_path, title, subtitle, sections)


def conclusion_text(result: dict[str, Any]) -> str:
    """Say in words who won, by how much, and how sure that is."""
    rows = {row["name"]: row for row in result["variants"]}
    learned, best = rows[result["learned"]], rows[result["best_hand_written"]]
    pair = next(each for each in result["pairs"] if each["other"] == best["name"])
    low, high = pair["difference_interval"]
    words = {
        "better": "The discovered component beats the best hand-written one",
        "worse": "The discovered component is worse than the best hand-written one",
        "undecided": "Neither the discovered component nor the best hand-written one is better",
    }
    probability = pair["probability_of_improvement"]
    budget = "neither was tuned"
    if result["tuning_settings"]:
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


def _table(result: dict[str, Any]) -> report.Table:
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
    return report.Table("Held-out comparison", columns, rows, note=note, highlight=highlight)


def _scale_table(result: dict[str, Any], scale_name: Any) -> report.Table:
    rows = []
    for row in result["ablation"]:
        low, high = row["interval"]
        clipping = "on" if row["clipping"] else "off"
        interval = f"[{low:.4g}, {high:.4g}]"
        rows.append(
            [row["shape"], row["scale"], clipping, row["coefficient"], row["iqm"], interval]
        )
    ratio = result["scale_ratio"]
    note = (
        f"The learned loss is {ratio:.3g} times as steep as squared error (root mean square of the "
        "derivative at errors that occur). Shape and scale are exchanged separately, with and "
        "without clipping of the gradient's norm where the learner clips."
    )
    columns = ["shape", "scale", "clipping", scale_name, "IQM", "95% interval"]
    return report.Table("Ablation: scale against shape", columns, rows, note=note)


def _sides_table(result: dict[str, Any]) -> report.Table:
    rows = []
    for row in result["sides"]:
        low, high = row["interval"]
        rows.append([row["loss"], row["iqm"], f"[{low:.4g}, {high:.4g}]"])
    note = (
        "The even part treats predictions that are too high like those that are too low; the odd "
        "part is the rest. A slope at zero error pushes predictions up or down for ever."
    )
    columns = ["loss", "IQM", "95% interval"]
    return report.Table("Ablation: the two sides of the error", columns, rows, note=note)


def _heading(path: Path) -> str:
    return path.stem.replace("_", " ").capitalize()
