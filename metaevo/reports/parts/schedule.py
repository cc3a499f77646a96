"""Figure of a learned schedule over training, and a sentence with its numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np

from metaevo.parts.part import LEARNED, Evolved
from metaevo.reports.curve_plots import plot_schedules
from purerl.parts import schedules
from purerl.types import Context, MetaParams

CAPTIONS = {
    "schedule.png": "What the discovered schedule makes of the learner's hyperparameters over "
    "training, beside hand-written ones. The learning rate is what the optimizer anneals to, where "
    "that takes the whole training.",
}
POINTS = 201
SAME = 0.005
"""A hyperparam that changes relatively less than this is the same."""


def draw(found: Evolved, figures: Path) -> None:
    """Draw every hyperparam that the schedule changes, into schedule.png."""
    curves = {LEARNED: curves_of(found.apply, found.meta_params, found)}
    slot = found.learner.slot("schedule") or schedules.SCHEDULE
    for name in slot.compared:
        curves[name] = curves_of(slot.functions[name], None, found)
    changed = changes(curves[LEARNED], curves[slot.compared[0]]) or ["learning_rate"]
    panels = {
        hyperparam: {name: curve[hyperparam] for name, curve in curves.items()}
        for hyperparam in changed
    }
    plot_schedules(panels, figures / "schedule.png")


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
    """Say what each hyperparam is multiplied by at the start, half-way and at the end."""
    del observed
    learned = curves_of(found.apply, found.meta_params, found, annealed=False)
    given = curves_of(schedules.constant, None, found, annealed=False)
    sentences = []
    for name in changes(learned, given):
        start, middle, end = (f"{learned[name][at]:.3g}" for at in (0, POINTS // 2, POINTS - 1))
        sentences.append(
            f"{name} is {start} at the start, {middle} half-way and {end} at the end of training "
            f"(the run's: {given[name][0]:.3g})"
        )
    if not sentences:
        return ["The schedule leaves all hyperparameters as they are."]
    return ["The schedule: " + "; ".join(sentences) + "."]


def curves_of(
    schedule: Callable, meta_params: MetaParams, found: Evolved, *, annealed: bool = True
) -> dict[str, np.ndarray]:
    """Return every hyperparam over training, [POINTS] each.

    If `annealed`, the learning rate is the optimizer's, which anneals it.
    """

    def at(progress):
        context = Context(found.hyperparams, progress, found.num_updates)
        hyperparams = schedule(meta_params, context)
        rate, left = hyperparams.learning_rate, hyperparams.final_learning_rate
        if annealed and hyperparams.annealing_steps is None:
            rate = rate * (1.0 + (left - 1.0) * progress)
        return {**vars(hyperparams), "learning_rate": rate}

    values = jax.vmap(at)(np.linspace(0.0, 1.0, POINTS, dtype=np.float32))
    order = vars(found.hyperparams)  # not alphabetical
    return {name: np.asarray(values[name]) for name in order if values[name] is not None}


def changes(learned: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> list[str]:
    """Return the hyperparams that differ somewhere."""
    return [
        name
        for name, value in learned.items()
        if (np.abs(value - given[name]) > SAME * np.abs(given[name])).any()
    ]
