"""The end of a run of evolution: the held-out comparison, figures, the report."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo import discovery, plots, policy_loss_study, report, value_loss_study
from metaevo.comparison import Comparison, hand_written
from metaevo.evaluation import LEARNED, Contender, Scores, curve_frames
from metaevo.run_directory import RunDirectory, write_json_atomic
from purerl.learners import LEARNERS, num_frames

if TYPE_CHECKING:
    from metaevo.runner import EvolutionRun


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
    for path in (run.report_path, run.figures, run.meta_params):
        this.tracker.log_artifact(path)
    print(f"report: {run.report_path}")


def _compare(this: "EvolutionRun", check_stop: Callable[[], None]) -> None:
    settings, run, parts = this.settings, this.run, this.parts
    config, seed = settings.evaluation, settings.run.seed
    slot_function, meta_params = discovery.load(run.path)
    meta_params = jax.device_get(meta_params)
    names, baseline_function = hand_written(parts.slot, settings.learner)

    def contender(function: Callable, example: Any) -> Contender:
        return Contender(
            parts.tasks(settings, function),
            settings.hyperparams,
            example,
            settings.fitness,
            curve_points=config.curve_points,
            chunk_size=settings.evolution.chunk_size,
        )

    comparison = Comparison(
        contender(slot_function, meta_params),
        contender(baseline_function, np.int32(0)),
        names,
        meta_params,
        config,
        seed=seed,
        evolution_frames=this.evolution.frames(settings.evolution.generations),
        normalisation=this.normalisation,
    )
    ablating = parts.slot == "value_loss" and config.ablation_seeds > 0 and len(this.tasks) == 1
    scale_name = LEARNERS[settings.learner].loss_scale
    total = comparison.frames
    if ablating:
        count = len(value_loss_study.SIDES)
        if scale_name is not None:
            count += value_loss_study.scale_ablation_variants(settings.hyperparams)
        total += count * config.ablation_seeds * comparison.learned.frames_per_seed
    with tqdm(total=total, desc="comparing", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        result, scores = comparison.run(run.path / "tuning.json", progress)
        if parts.slot == "value_loss":
            task = comparison.baselines.tasks[0]
            errors = value_loss_study.observed_errors(
                task, settings.hyperparams, np.int32(0), seed=seed
            )
            curves = value_loss_study.loss_curves(
                slot_function, meta_params, settings.hyperparams, errors
            )
            plots.plot_losses(
                curves, run.figures / "loss.png", title="", density=errors[0] - errors[1]
            )
            if ablating and scale_name is not None:
                ratio = value_loss_study.scale_ratio(
                    slot_function, meta_params, settings.hyperparams, errors
                )
                result["scale_ratio"] = ratio
                result["ablation"] = value_loss_study.ablate_scale(
                    comparison,
                    settings.hyperparams,
                    ratio,
                    scale_name=scale_name,
                    seeds=config.ablation_seeds,
                    seed=seed,
                    progress=progress,
                )
            if ablating:
                result["sides"] = value_loss_study.ablate_sides(
                    contender(
                        value_loss_study.sides_of(slot_function),
                        {"side": np.int32(0), "meta_params": meta_params},
                    ),
                    meta_params,
                    seeds=config.ablation_seeds,
                    seed=seed,
                    progress=progress,
                )
    result["frames_per_agent"] = comparison.learned.frames_per_seed
    result["evolution_frames"] = this.evolution.frames(settings.evolution.generations)
    _draw_scores(this, result, scores)
    _log(this, result)
    write_json_atomic(run.evaluation_path, result)


def _draw_scores(this: "EvolutionRun", result: dict[str, Any], scores: dict[str, Scores]) -> None:
    figures = this.run.figures
    rows = [{**row, "tuned": bool(row["tuning_frames"])} for row in result["variants"]]
    plots.plot_scores(rows, figures / "scores.png", xlabel="fitness on held-out seeds, IQM")
    shown = [row["name"] for row in result["variants"] if row["tuning_frames"]] or list(scores)
    for index, task in enumerate(this.tasks):
        config = task.learner.config
        suffix = "" if len(this.tasks) == 1 else f"_{task.name}"
        plots.plot_learning_curves(
            {name: scores[name].curves[:, index] for name in shown},
            curve_frames(config, this.settings.evaluation.curve_points),
            figures / f"learning_curves{suffix}.png",
            title="" if len(this.tasks) == 1 else task.name,
        )


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
    """Write report.html from what lies in the run directory, and print the table."""
    saved = run.read_config()
    records = run.read_metrics("generation")
    sections: list[Any] = []
    if run.evaluation_path.exists():
        result = json.loads(run.evaluation_path.read_text(encoding="utf-8"))
        table = _table(result)
        print("\n" + table.text() + "\n\n" + conclusion_text(result) + "\n")
        sections += [report.Text("Conclusion", conclusion_text(result)), table]
        tables = []
        if "ablation" in result:
            tables.append(_scale_table(result, LEARNERS[saved["config"]["learner"]].loss_scale))
        if "sides" in result:
            tables.append(_sides_table(result))
        for ablation in tables:
            print(ablation.text() + "\n", file=sys.stdout)
        sections += tables
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
    subtitle = f"{env if isinstance(env, str) else ', '.join(env)}, {len(records)} generations"
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
