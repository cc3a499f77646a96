"""The held-out comparison of a discovered component: all variants trained, the figures drawn.

The end of every run of evolution, on its own task, and `experiments/evaluate.py`, on another one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo.agents.train_learner import Normalisation, Task
from metaevo.config import to_dict
from metaevo.held_out import value_loss as value_loss_study
from metaevo.held_out.comparison import Comparison, hand_written
from metaevo.held_out.evaluation import Contender, Scores, curve_frames
from metaevo.held_out.tuning import tuning_space
from metaevo.report import plots
from metaevo.studies.settings import Parts


def compare(
    settings: Any,
    parts: Parts,
    slot_function: Callable,
    meta_params: Any,
    *,
    path: Path,
    figures: Path,
    evolution_frames: int,
    normalisation: Normalisation | None,
    check_stop: Callable[[], None],
) -> dict[str, Any]:
    """Compare a component with tuned hand-written ones on held-out seeds, and draw the figures.

    Args:
        settings: of the experiment: learner, hyperparams, fitness, evaluation, seed.
        parts: the slot and the environments.
        slot_function: the discovered component.
        meta_params: its parameters.
        path: of the directory that keeps the tuning of an interrupted comparison.
        figures: where to draw.
        evolution_frames: what evolution used, for `tuning_seeds: null`.
        normalisation: of several environments.
        check_stop: raises if the run is to stop; called between chunks of agents.

    Returns:
        the content of evaluation.json.
    """
    config, seed = settings.evaluation, settings.run.seed
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
        tuning_space(config, settings),
        seed=seed,
        evolution_frames=evolution_frames,
        normalisation=normalisation,
        context=str(task_of(settings)),
    )
    tasks = comparison.learned.tasks
    ablating = parts.slot == "value_loss" and config.ablation_seeds > 0 and len(tasks) == 1
    variants = value_loss_study.num_variants(settings) if ablating else 0
    total = (
        comparison.frames + variants * config.ablation_seeds * comparison.learned.frames_per_seed
    )
    with tqdm(total=total, desc="comparing", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        result, scores = comparison.run(path / "tuning", progress)
        if parts.slot == "value_loss":
            study = value_loss_study.Study(settings, comparison, slot_function, meta_params)
            study.draw(figures / "loss.png")
            result["observed"] = study.observed()
            if ablating:
                result |= study.ablate(contender, progress)
    result["frames_per_agent"] = comparison.learned.frames_per_seed
    result["evolution_frames"] = evolution_frames
    result["curves"] = comparison.learned.measure
    _draw_curves(settings, tasks, figures, result, scores)
    return result


def task_of(settings: Any) -> dict[str, Any]:
    """Return the settings on which scores depend, beside the number of seeds and the grid."""
    everything = to_dict(settings)
    sections = ("learner", "task", "train", "hyperparams", "fitness")
    return {key: everything[key] for key in sections} | {"seed": settings.run.seed}


def _draw_curves(
    settings: Any,
    tasks: list[Task],
    figures: Path,
    result: dict[str, Any],
    scores: dict[str, Scores],
) -> None:
    shown = [row["name"] for row in result["variants"] if row["tuning_frames"]] or list(scores)
    for index, task in enumerate(tasks):
        suffix = "" if len(tasks) == 1 else f"_{task.name}"
        plots.plot_learning_curves(
            {name: scores[name].curves[:, index] for name in shown},
            curve_frames(task.learner.config, settings.evaluation.curve_points),
            figures / f"learning_curves{suffix}.png",
            title="" if len(tasks) == 1 else task.name,
            ylabel=result["curves"],
        )
