"""Pictures of evolved parts: the function of a slot on a grid of its arguments.

A learned function is next to hand-written ones. One that looks at time has a curve for every
quarter of training.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid

from metaevo.parts.part import LEARNED, Part
from metaevo.reports.plots import Panel
from purerl.parts import losses
from purerl.types import Context, Hyperparams, LearnerEntry, MetaParams, PyTree

PERCENTS = 0, 25, 50, 75, 100
"""of training that are done"""
POINTS = 401
TIMES = " A function that looks at time has a curve for every quarter of training."

Curve = Callable[[Callable[..., Any], MetaParams, Context], PyTree]
"""`(function, meta_params, context) -> curves` of a slot's function, a tree of arrays."""


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
    layout: Mapping[str, Any]
    """of `plot_panels`"""


def curves_of(
    found: Evolved, curve: Curve, others: Mapping[str, Callable[..., Any]]
) -> dict[str, Any]:
    """Return curves by name: of the learned function, at several times, and of hand-written ones.

    A learned function whose curve does not depend on the progress of training has one.
    """

    def at(function, meta_params, progress):
        return curve(function, meta_params, Context(found.hyperparams, progress, found.num_updates))

    learned = jax.vmap(partial(at, found.part.apply, found.meta_params))(jnp.array(PERCENTS) / 100)
    times = [jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), learned)
             for i in range(len(PERCENTS))]  # fmt: skip
    equal = partial(np.array_equal, equal_nan=True)
    if all(jax.tree.all(jax.tree.map(equal, times[0], each)) for each in times):
        named = {LEARNED: times[0]}
    else:
        labels = (f"{LEARNED} at {percent}%" for percent in PERCENTS)
        named = dict(zip(labels, times, strict=True))
    start = jnp.float32(0)
    return named | {
        name: jax.tree.map(np.asarray, at(function, None, start))
        for name, function in others.items()
    }


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

    def slopes(function, meta_params, context):
        slope = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, 0, 0))
        return slope(meta_params, context, target + error, target, target + error)

    above, below = {}, {}
    known = {"squared": losses.squared, "huber": losses.huber}
    for name, slope in curves_of(found, slopes, known).items():
        loss = cumulative_trapezoid(slope, error, initial=0.0)
        loss = loss - loss.min()
        above[name] = error, loss / (loss.max() or 1.0)
        below[name] = error, slope / (loss.max() or 1.0)
    label = "error: prediction - target"
    return [
        Panel(above, "", "loss, drawn equally high", cross=0.0, behind=observed),
        Panel(below, label, "slope of the curve above", cross=0.0, behind=observed),
    ]


PICTURES = {
    "value_loss": Picture(
        "loss.png",
        "The discovered loss and its derivative next to hand-written ones; grey: errors that occur "
        "half-way through training with squared error." + TIMES,
        value_loss,
        {"sharex": True},
    ),
}
"""by slot; those of other slots are in `metaevo.reports.slots`"""
