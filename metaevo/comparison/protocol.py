"""Held-out comparison of a discovered component: train all variants and draw the figures.

Every evolution ends with this comparison on its own task; `metaevo evaluate` repeats it on other
tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from metaevo.comparison.ablations import PartInspector, run_ablations
from metaevo.comparison.comparison import Comparison, digest
from metaevo.comparison.entries import Functions, MakeContender, Replacement, entries_of
from metaevo.comparison.evaluation import REWARD, Contender, JudgedSettings, Scores, curve_frames
from metaevo.components import filling
from metaevo.components.channels import NONE
from metaevo.config import to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.seeding import Purpose
from metaevo.reports import plots
from metaevo.runs.progress import Progress as ProgressBar
from metaevo.runs.schema import HeldOut
from metaevo.training.task import Experiment
from metaevo.training.train_learner import Task
from purerl.types import PyTree


def compare(
    inspector: PartInspector,
    *,
    learned: PlainMapping,
    path: Path,
    evolution_frames: int,
    check_stop: Callable[[], None],
) -> HeldOut:
    """Compare learned parts with tuned hand-written ones on held-out seeds; draw learning curves.

    Args:
        inspector: describes and ablates the parts of the first evolution.
        learned: meta-parameters of each evolution by name of the entry.
        path: directory for the tuning of an interrupted comparison and, in `figures`, the curves.
        evolution_frames: environment steps of an evolution, for `tuning_seeds: null`.
        check_stop: raises if the run should stop; called between chunks of agents.

    Returns:
        the content of evaluation.json, with the tables of the ablations.
    """
    experiment, config = inspector.experiment, inspector.settings.evaluation
    comparison = comparison_of(experiment, learned, evolution_frames=evolution_frames)
    found = comparison.entries[comparison.found]
    ablations = inspector.ablations(found.meta_params) if config.ablation_seeds else []
    rows = sum(len(each.rows) for _, each in ablations)
    total = comparison.frames + rows * config.ablation_seeds * comparison.frames_per_seed
    with ProgressBar(total=total, desc="comparing", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        result, scores = comparison.run(path / "tuning", progress, bar.stage)
        bar.stage("ablations")
        contender = contender_maker(experiment)
        more = run_ablations(ablations, comparison, experiment, contender, progress)
    result["evolution_frames"] = evolution_frames
    result["curves"] = found.contender.measure
    others = comparison.discovered[1:]
    task = found.contender.task
    _draw_curves(inspector.settings, task, path / "figures", result, scores, without=others)
    observed = inspector.observations(found.meta_params)
    return cast(HeldOut, {**result, **more, "observed": observed})


def comparison_of(
    experiment: Experiment,
    learned: PlainMapping,
    *,
    evolution_frames: int = 0,
    replacements: Mapping[str, Replacement] | None = None,
    tunes_found: bool = True,
    purpose: Purpose = Purpose.HELD_OUT,
) -> Comparison:
    """Return a comparison on the task of the settings, without compilation.

    Args:
        experiment: the evolved parts and the environment.
        learned: meta-parameters of each evolution by name of the entry.
        evolution_frames: environment steps of an evolution, for `tuning_seeds: null`.
        replacements: parts by name of the entry, to compare in the place of learned ones.
        tunes_found: whether learned parts and replacements are tuned too.
        purpose: purpose of the held-out seeds.
    """
    settings, replacements = experiment.settings, replacements or {}
    contender = contender_maker(experiment)
    context = str(task_of(settings))
    if replacements:
        chosen = [(each.part.config, digest(each.meta_params)) for each in replacements.values()]
        context = f"{context} {chosen}"
    return Comparison(
        entries_of(experiment, learned, contender, replacements),
        settings.evaluation,
        seed=settings.run.seed,
        evolution_frames=evolution_frames,
        context=context,
        learned=len(learned) + len(replacements),
        tunes_found=tunes_found,
        purpose=purpose,
    )


def contender_maker(experiment: Experiment) -> MakeContender:
    """Return a function that makes contenders on the task of the settings."""
    settings = experiment.settings

    def contender(functions: Functions, example: PyTree) -> Contender:
        return Contender(
            experiment.task(functions, example),
            settings.hyperparams,
            example,
            settings.fitness,
            curve_points=settings.evaluation.curve_points,
            chunk_size=settings.evolution.chunk_size,
        )

    return contender


def task_of(settings: JudgedSettings) -> PlainDict:
    """Return the settings that scores depend on, except the number of seeds and the space."""
    everything = to_dict(settings)
    sections = ("learner", "task", "train", "hyperparams", "fitness")
    slots = {
        key: everything[key] for key in filling.slots_of(settings.learner) if key in everything
    }
    if everything.get("channel", NONE) != NONE:  # or the same as in earlier versions
        slots["channel"] = everything["channel"]
    if everything.get("tasks"):
        slots["tasks"] = everything["tasks"]
    return {key: everything[key] for key in sections} | slots | {"seed": settings.run.seed}


def _draw_curves(
    settings: JudgedSettings,
    task: Task,
    figures: Path,
    result: HeldOut,
    scores: dict[str, Scores],
    *,
    without: Sequence[str],
) -> None:
    rows = [row for row in result["variants"] if row["function"] not in without]
    shown = [row["name"] for row in rows if row["tuning_frames"]] or [row["name"] for row in rows]
    plots.plot_learning_curves(
        {name: scores[name].curves for name in shown},
        curve_frames(task.learner.config, settings.evaluation.curve_points),
        figures / "learning_curves.png",
        ylabel=result["curves"],
        complete_from=None if result["curves"] == REWARD else task.complete_from,
    )
