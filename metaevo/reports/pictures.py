"""Pictures of evolved parts: what fills a slot, on a grid of one argument.

A learned function is next to hand-written ones. One that looks at time has a curve for every
quarter of training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts.part import LEARNED, Part
from metaevo.reports.plots import Panel
from purerl.parts import losses
from purerl.types import Context, Hyperparams, LearnerEntry, MetaParams

PERCENTS = 0, 25, 50, 75, 100
"""of training that are done"""
POINTS = 401
TIMES = " A function that looks at time has a curve for every quarter of training."
Function = Callable[..., Any]


@dataclass(frozen=True)
class Evolved:
    """A part that evolution has found, for the functions that draw and describe it."""

    part: Part
    meta_params: MetaParams
    """of the part"""
    learner: LearnerEntry
    hyperparams: Hyperparams
    """of the learner, as in the experiment"""
    value_targets: Callable[[], np.ndarray]
    """returns [2, samples]: predictions and targets as the value loss sees them half-way through
    training with hand-written parts"""
    num_updates: int = 1
    """of a whole training"""


class Picture(NamedTuple):
    """The picture of a slot."""

    file: str
    caption: str
    panels: Callable[[Evolved], list[Panel]]
    layout: Mapping[str, Any] = {}
    """of `draw_panels`"""


def panels_of(
    found: Evolved,
    compute: Callable[[Function, MetaParams, Context], Any],
    known: Mapping[str, Function],
    x: np.ndarray,
    labels: Sequence[tuple[str, str, str]],
    **options: Any,
) -> list[Panel]:
    """Return panels with the curves of the learned function and of hand-written ones.

    Args:
        found: with the learned function, which has one curve if it does not look at time.
        compute: returns the curves [panels, points] of a slot's function.
        known: the hand-written functions by name, drawn as at the start of training.
        x: [points].
        labels: of x and y, and the title, by panel.
        options: of all panels.
    """

    def over_training(function: Function, meta_params: MetaParams) -> np.ndarray:
        def at(progress: jax.Array) -> Any:
            context = Context(found.hyperparams, progress, found.num_updates)
            return jnp.stack(compute(function, meta_params, context))

        return np.asarray(jax.vmap(at)(jnp.array(PERCENTS) / 100))

    learned = over_training(found.part.apply, found.meta_params)
    curves = {LEARNED: learned[0]}
    if not np.array_equal(learned, learned[:1].repeat(len(learned), axis=0), equal_nan=True):
        names = (f"{LEARNED} at {percent}%" for percent in PERCENTS)
        curves = dict(zip(names, learned, strict=True))
    curves |= {name: over_training(function, None)[0] for name, function in known.items()}
    return [
        Panel({name: (x, each[place]) for name, each in curves.items()}, *label, **options)
        for place, label in enumerate(labels)
    ]


def integral(slope: jax.Array, x: np.ndarray) -> jax.Array:
    """Return the integral of a function on a grid by the trapezoidal rule, 0 at its first point."""
    areas = (slope[1:] + slope[:-1]) / 2 * np.diff(x)
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(areas)])


def value_loss(found: Evolved) -> list[Panel]:
    """Draw the loss and its derivative against the error, at errors that occur.

    The loss is the integral of its derivative, all that a learner uses: the value of a loss that is
    given by its slope is inexact where the slope jumps. Each loss has its minimum at 0 and its
    maximum at 1, and its derivative the same factor: shapes compare, and tuning chooses the scale.
    """
    predictions, targets = found.value_targets()
    observed = predictions - targets
    limit = float(np.quantile(np.abs(observed), 0.99)) or 1.0
    error = np.linspace(-limit, limit, POINTS, dtype=np.float32)
    target = np.full(POINTS, np.median(targets), np.float32)

    def compute(function, meta_params, context):
        gradient = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, 0, 0))
        slope = gradient(meta_params, context, target + error, target, target + error)
        loss = integral(slope, error)
        height = jnp.ptp(loss)
        scale = jnp.where(height > 0, height, 1.0)
        return (loss - loss.min()) / scale, slope / scale

    known = {"squared": losses.squared, "huber": losses.huber}
    label = "error: prediction - target"
    labels = [("", "loss, drawn equally high", ""), (label, "slope of the curve above", "")]
    return panels_of(found, compute, known, error, labels, cross=0.0, behind=observed)


PICTURES = {
    "value_loss": Picture(
        "loss.png",
        "The discovered loss and its derivative next to hand-written ones; grey: errors that occur "
        "half-way through training with squared error, without the largest 1%." + TIMES,
        value_loss,
        {"sharex": True},
    ),
}
"""by slot; those of other slots are in `metaevo.reports.slots`"""
