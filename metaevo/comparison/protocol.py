"""Held-out comparison of a discovered component: train all variants and draw the figures.

Every evolution ends with this comparison on its own task; `metaevo evaluate` repeats it on other
tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from metaevo.comparison.comparison import Comparison, digest
from metaevo.comparison.entries import entries_of
from metaevo.comparison.evaluation import JudgedSettings
from metaevo.comparison.inspector import PartInspector
from metaevo.config import to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.seeding import Purpose
from metaevo.parts import learners
from metaevo.parts.channels import NONE
from metaevo.parts.part import Filling
from metaevo.reports import plots
from metaevo.runs.progress import Progress as ProgressBar
from metaevo.runs.schema import HeldOut
from metaevo.tasks.agents import Trained
from metaevo.tasks.binding import Experiment
from metaevo.tasks.fitness import mean_returns, mean_rewards
from metaevo.tasks.population import Population

RETURN, REWARD = "return of finished episodes", "reward per step"
"""Quantity of a learning curve, depending on the weights of the fitness."""


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
        inspector: describes the parts of the first evolution.
        learned: meta-parameters of each evolution by name of the entry.
        path: directory for the tuning of an interrupted comparison and, in `figures`, the curves.
        evolution_frames: environment steps of an evolution, for `tuning_seeds: null`.
        check_stop: raises if the run should stop; called between chunks of agents.

    Returns:
        the content of evaluation.json.
    """
    comparison = comparison_of(inspector.experiment, learned, evolution_frames=evolution_frames)
    found = comparison.entries[comparison.found]
    with ProgressBar(
        total=comparison.frames,
        desc="comparing",
        unit="frame",
        unit_scale=True,
        check_stop=check_stop,
    ) as bar:
        result, trained = comparison.run(path / "tuning", bar.update, bar.stage)
    result["evolution_frames"] = evolution_frames
    fitness, others = inspector.settings.fitness, comparison.discovered[1:]
    result["curves"] = RETURN if fitness.mean_return or fitness.final_return else REWARD
    _draw_curves(found.population, path / "figures", result, trained, without=others)
    observed = inspector.observations(found.meta_params)
    return cast(HeldOut, {**result, "observed": observed})


def comparison_of(
    experiment: Experiment,
    learned: PlainMapping,
    *,
    evolution_frames: int = 0,
    replacements: Mapping[str, Filling] | None = None,
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
    context = str(task_of(settings))
    if replacements:
        chosen = [(each.part, digest(each.meta_params)) for each in replacements.values()]
        context = f"{context} {chosen}"
    return Comparison(
        entries_of(experiment, learned, replacements),
        settings.evaluation,
        seed=settings.run.seed,
        evolution_frames=evolution_frames,
        context=context,
        learned=len(learned) + len(replacements),
        tunes_found=tunes_found,
        purpose=purpose,
    )


def task_of(settings: JudgedSettings) -> PlainDict:
    """Return the settings that scores depend on, except the number of seeds and the space."""
    everything = to_dict(settings)
    sections = ("learner", "task", "train", "hyperparams", "fitness")
    names = [slot.name for slot in learners.find(settings.learner).slots]
    slots = {key: everything[key] for key in names if key in everything}
    if everything.get("channel", NONE) != NONE:  # or the same as in earlier versions
        slots["channel"] = everything["channel"]
    if everything.get("tasks"):
        slots["tasks"] = everything["tasks"]
    return {key: everything[key] for key in sections} | slots | {"seed": settings.run.seed}


def _draw_curves(
    population: Population,
    figures: Path,
    result: HeldOut,
    trained: dict[str, Trained],
    *,
    without: Sequence[str],
) -> None:
    rows = [row for row in result["variants"] if row["function"] not in without]
    shown = [row["name"] for row in rows if row["tuning_frames"]] or [row["name"] for row in rows]
    is_return = result["curves"] == RETURN
    measure = mean_returns if is_return else mean_rewards
    plots.plot_learning_curves(
        {name: measure(trained[name].episodes) for name in shown},
        population.windows.ends() * population.frames_per_update,
        figures / "learning_curves.png",
        ylabel=result["curves"],
        complete_from=population.task.complete_from if is_return else None,
    )
