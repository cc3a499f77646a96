"""Figure and ablations of learned value losses.

Scale against shape: a loss may win because it is large or small, not because of its shape (clipping
the gradient's norm couples the scale of PPO's value loss to the policy's step; the step size of
Q-learning is its loss's scale). So both are exchanged, one at a time.

The two sides of the error: a loss may win because it treats predictions that are too low and too
high differently. So the learned loss is taken apart, and its parts are given to squared error.
"""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid

from metaevo.components import temporal
from metaevo.components.component import LEARNED, Ablation, Found, Row
from metaevo.config.plain import PlainDict
from metaevo.reports.page import Table
from metaevo.reports.plots import LossCurve, plot_losses
from purerl.learners import LearnerEntry
from purerl.parts import losses
from purerl.types import Context, Hyperparams, MetaParams

CAPTIONS = {
    "loss.png": "The discovered loss and its derivative beside hand-written ones; grey: errors "
    "that occur half-way through training with squared error. A loss that looks at time has a "
    "curve for every quarter of training.",
}
SCALARS = 3
"""Arguments of a value loss after meta_params and context: prediction, target, old prediction."""
POINTS = 2001
"""Number of errors at which `findings` looks."""
COMPARABLE = 1000.0
"""A loss steeper than squared error by a larger factor meets errors that are all but zero."""


def draw(found: Found, figures: Path) -> None:
    """Draw the learned loss, its derivative and hand-written losses into loss.png."""
    errors = found.value_targets()
    limit = error_limit(errors)
    target = np.full(401, np.median(errors[1]), np.float32)
    shown = np.stack([target + np.linspace(-limit, limit, 401, dtype=np.float32), target])
    learned = temporal.quarters(found, SCALARS)
    functions = {name: (function, found.meta_params) for name, function in learned.items()}
    functions |= {"squared": (losses.squared, None), "huber": (losses.huber, None)}
    curves = {name: _curve(*each, found.hyperparams, shown) for name, each in functions.items()}
    plot_losses(curves, figures / "loss.png", density=errors[0] - errors[1])


def observe(found: Found) -> dict[str, float]:
    """Return a description of the loss's shape: errors that occur, and their slopes."""
    errors = found.value_targets()
    predictions, targets = errors
    return {
        "error": error_limit(errors),
        "target": float(np.median(targets)),
        "steepness": _steepness(found, errors),
        "share_of_zero": float(np.mean(predictions == targets)),
    }


def findings(found: Found, observed: Mapping[str, float]) -> list[str]:
    """Describe the loss's shape, from the results of `observe`."""
    limit, target = float(observed.get("error", 1.0)), np.float32(observed.get("target", 0.0))
    errors = np.stack([target + np.linspace(-limit, limit, POINTS), np.full(POINTS, target)])

    def sentence(function: Callable) -> str:
        curve = _curve(function, found.meta_params, found.hyperparams, errors.astype(np.float32))
        error, loss, slope = map(np.asarray, curve)
        if not np.isfinite(loss).all() or not np.isfinite(slope).all():
            return "The loss is not finite at some of the errors that occur."
        lowest = error[np.argmin(loss)]
        text = (
            f"Of errors from -{limit:.2g} to {limit:.2g} the loss is lowest at "
            f"{lowest if abs(lowest) > limit / 200 else 0.0:.2g}, and its slope at zero error is "
            f"{slope[POINTS // 2]:.2g}"
        )
        steepness = observed.get("steepness")
        if steepness is not None and 1 / COMPARABLE <= steepness <= COMPARABLE:
            text += f"; it is {steepness:.2g} times as steep as squared error"
        return f"{text}."

    return temporal.sentences(found, SCALARS, sentence)


def ablations(found: Found) -> list[Ablation]:
    """Return `sides` and, where the learner has a scale for its loss, `ablation`."""
    sides = ablation_of_sides(found.apply, found.meta_params)
    if found.learner.loss_scale is None:
        return [sides]
    ratio = _steepness(found, found.value_targets())
    return [ablation_of_scale(found.hyperparams, ratio, found.learner.loss_scale), sides]


def tables(result: PlainDict, learner: LearnerEntry) -> list[Table]:
    """Return the ablations in evaluation.json as tables for the report."""
    found, scores = [], ("IQM", "95% interval")
    if "ablation" in result:
        columns = ["shape", "scale", "clipping", str(learner.loss_scale), *scores]
        rows = [
            [row["shape"], row["scale"], "on" if row["clipping"] else "off", row["coefficient"],
             row["iqm"], row["interval"]]
            for row in result["ablation"]
        ]  # fmt: skip
        note = (
            f"The learned loss is {result['scale_ratio']:.3g} times as steep as squared error "
            "(root mean square of the derivative at errors that occur). Shape and scale are "
            "exchanged separately, with and without clipping of the gradient's norm where the "
            "learner clips."
        )
        found.append(Table("Ablation: scale against shape", columns, rows, note=note))
    if "sides" in result:
        rows = [[row["loss"], row["iqm"], row["interval"]] for row in result["sides"]]
        note = (
            "The even part treats predictions that are too high and too low alike; the odd part is "
            "the rest. A slope at zero error pushes predictions up or down until the loss pushes "
            "back."
        )
        columns = ["loss", *scores]
        found.append(Table("Ablation: the two sides of the error", columns, rows, note=note))
    return found


def slopes(
    value_loss: Callable, meta_params: MetaParams, hyperparams: Hyperparams, errors: np.ndarray
) -> np.ndarray:
    """Return the loss's derivative by the prediction [samples] at observed errors [2, samples].

    The old prediction is the prediction, as in the first pass over a batch.
    """
    predictions, targets = errors
    slope = jax.vmap(jax.grad(value_loss, argnums=2), in_axes=(None, None, 0, 0, 0))
    context = Context(hyperparams)
    return np.asarray(jax.jit(slope)(meta_params, context, predictions, targets, predictions))


def error_limit(errors: np.ndarray) -> float:
    """Return the size that 99% of errors [2, samples] have at most."""
    predictions, targets = errors
    return float(np.quantile(np.abs(predictions - targets), 0.99)) or 1.0


def _curve(
    value_loss: Callable, meta_params: MetaParams, hyperparams: Hyperparams, errors: np.ndarray
) -> LossCurve:
    """Return a loss, 0 at zero error, and its derivative at increasing errors [2, samples].

    The derivative is that of `slopes`, all that a learner uses, and the loss is its integral: the
    value of a loss that is given by its slope is inexact where the slope jumps.
    """
    predictions, targets = errors
    error, slope = predictions - targets, slopes(value_loss, meta_params, hyperparams, errors)
    loss = cumulative_trapezoid(slope, error, initial=0.0)
    return LossCurve(error, loss - np.interp(0.0, error, loss), slope)


def _steepness(found: Found, errors: np.ndarray) -> float:
    """Return `scale_ratio` half-way through training, as the errors are."""
    half_way = temporal.at(found, 0.5)
    return scale_ratio(half_way, found.meta_params, found.hyperparams, errors)


def scale_ratio(
    value_loss: Callable, meta_params: MetaParams, hyperparams: Hyperparams, errors: np.ndarray
) -> float:
    """Return how much steeper the learned loss is than squared error, in root mean square."""
    learned = slopes(value_loss, meta_params, hyperparams, errors)
    squared = slopes(losses.squared, None, hyperparams, errors)
    ratio = np.sqrt(np.mean(np.square(learned)) / max(np.mean(np.square(squared)), 1e-12))
    return float(np.clip(ratio, 1e-6, 1e6))


def ablation_of_scale(hyperparams: Hyperparams, ratio: float, scale_name: str) -> Ablation:
    """Exchange the scales of the learned loss and of squared error, with and without clipping.

    `ratio` is `scale_ratio`; `scale_name` is the hyperparam that multiplies the loss's gradient.
    """
    rows = []
    can_clip = hasattr(hyperparams, "max_grad_norm")
    names = LEARNED, "squared"
    for clipping, shape, scale in product((True, False) if can_clip else (False,), names, names):
        coefficient = float(getattr(hyperparams, scale_name))
        if shape != scale:
            coefficient *= 1.0 / ratio if shape == LEARNED else ratio
        labels = {"shape": shape, "scale": scale, "clipping": clipping, "coefficient": coefficient}
        settings = {scale_name: coefficient}
        if can_clip and not clipping:
            settings["max_grad_norm"] = float("inf")
        rows.append(Row(labels, shape, settings=settings))
    return Ablation("ablation", rows, {"scale_ratio": ratio})


SMALLER_SLOPES = {"a tenth": 1e-1, "a hundredth": 1e-2, "a thousandth": 1e-3}
"""Parts of the learned slope: where the sign of a slope is what matters, a tiny one does most."""

SIDES = (
    "learned",
    "learned, its even part",
    "learned, without its slope at zero error",
    "squared",
    "squared + the learned odd part",
    "squared + the learned slope at zero error",
    "squared + that slope over the learned curvature there",
    *(f"squared + {part} of that slope" for part in SMALLER_SLOPES),
)
"""The losses that `ablation_of_sides` compares."""


def sides_of(value_loss: Callable) -> Callable:
    """Return a slot function that takes a loss apart; see `SIDES`.

    With e the error and L(e) the loss, (L(e) + L(-e)) / 2 is its even part, which treats
    too high and too low predictions alike, and (L(e) - L(-e)) / 2 is its odd part.
    The slope at zero error is the simplest odd part: it pushes predictions up or down, to
    an error of minus the slope over the curvature; squared error with the last tilt goes there too.
    Its `meta_params` are `{"side": index into SIDES, "meta_params": those of value_loss}`.
    """

    def chosen(chosen_params, context, prediction, target, old_prediction):
        meta_params = chosen_params["meta_params"]

        def loss(prediction, old_prediction):
            return value_loss(meta_params, context, prediction, target, old_prediction)

        error = prediction - target
        there = loss(prediction, old_prediction)
        mirrored = loss(target - error, 2.0 * target - old_prediction)
        squared = losses.squared(None, context, prediction, target, old_prediction)
        slope = jax.grad(loss)
        tilt = slope(target, target) * error
        curvature = jax.grad(slope)(target, target)
        values = (
            there,
            0.5 * (there + mirrored),
            there - tilt,
            squared,
            squared + 0.5 * (there - mirrored),
            squared + tilt,
            squared + tilt / jnp.maximum(jnp.abs(curvature), 1e-3),
            *(squared + part * tilt for part in SMALLER_SLOPES.values()),
        )
        return jax.lax.select_n(chosen_params["side"], *values)

    return chosen


def ablation_of_sides(value_loss: Callable, meta_params: MetaParams) -> Ablation:
    """Train with each of `SIDES`: is it the treatment of the two sides that wins?"""
    function = sides_of(value_loss)
    rows = [
        Row({"loss": name}, function, {"side": np.int32(index), "meta_params": meta_params})
        for index, name in enumerate(SIDES)
    ]
    return Ablation("sides", rows)
