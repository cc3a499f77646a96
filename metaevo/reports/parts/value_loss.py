"""Figure and description of learned value losses."""

from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np
from scipy.integrate import cumulative_trapezoid

from metaevo.parts.part import Evolved
from metaevo.reports.parts import quarters
from metaevo.reports.plots import LossCurve, plot_losses
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


def draw(found: Evolved, figures: Path) -> None:
    """Draw the learned loss, its derivative and hand-written losses into loss.png."""
    errors = found.value_targets()
    limit = error_limit(errors)
    target = np.full(401, np.median(errors[1]), np.float32)
    shown = np.stack([target + np.linspace(-limit, limit, 401, dtype=np.float32), target])
    learned = quarters.quarters(found, SCALARS)
    functions = {name: (function, found.meta_params) for name, function in learned.items()}
    functions |= {"squared": (losses.squared, None), "huber": (losses.huber, None)}
    curves = {name: _curve(*each, found.hyperparams, shown) for name, each in functions.items()}
    plot_losses(curves, figures / "loss.png", density=errors[0] - errors[1])


def observe(found: Evolved) -> dict[str, float]:
    """Return a description of the loss's shape: errors that occur, and their slopes."""
    errors = found.value_targets()
    predictions, targets = errors
    return {
        "error": error_limit(errors),
        "target": float(np.median(targets)),
        "steepness": _steepness(found, errors),
        "share_of_zero": float(np.mean(predictions == targets)),
    }


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
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

    return quarters.sentences(found, SCALARS, sentence)


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


def _steepness(found: Evolved, errors: np.ndarray) -> float:
    """Return `scale_ratio` half-way through training, as the errors are."""
    half_way = quarters.at(found, 0.5)
    return scale_ratio(half_way, found.meta_params, found.hyperparams, errors)


def scale_ratio(
    value_loss: Callable, meta_params: MetaParams, hyperparams: Hyperparams, errors: np.ndarray
) -> float:
    """Return how much steeper the learned loss is than squared error, in root mean square."""
    learned = slopes(value_loss, meta_params, hyperparams, errors)
    squared = slopes(losses.squared, None, hyperparams, errors)
    ratio = np.sqrt(np.mean(np.square(learned)) / max(np.mean(np.square(squared)), 1e-12))
    return float(np.clip(ratio, 1e-6, 1e6))
