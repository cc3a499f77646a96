"""What is special to a learned value loss: its picture, and the ablation of scale against shape.

Clipping the gradient's norm couples the scale of the value loss to the policy's step: a loss may
win because it is large or small, not because of its shape. So both are exchanged, one at a time.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from metaevo import devices
from metaevo.comparison import Comparison, Variant
from metaevo.evaluation import LEARNED, Progress, without_diverged
from metaevo.plots import LossCurve
from metaevo.problems.train_learner import Task, working_set
from metaevo.seeding import Purpose, keys_for
from metaevo.statistics import summarise
from purerl import losses

AGENTS = 16


def observed_errors(task: Task, hyperparams: Any, meta_params: Any, *, seed: int) -> np.ndarray:
    """Collect predictions and targets as the loss sees them, half-way through training.

    Args:
        task: with a hand-written loss in the slot.
        hyperparams: those of the experiment.
        meta_params: of the hand-written loss.
        seed: of the experiment.

    Returns:
        [2, samples]: predictions, targets.
    """
    learner = task.learner

    def collect(key):
        state = learner.init(key, hyperparams, meta_params, task.env_params)

        def update(_, state):
            return learner.update(state, hyperparams, meta_params, task.env_params)[0]

        state = jax.lax.fori_loop(0, learner.config.num_updates // 2, update, state)
        return learner.value_targets(state, hyperparams, task.env_params)

    chunk_size = devices.choose_chunk_size(AGENTS, working_set(task, hyperparams, meta_params))
    rows = devices.RowMap(collect, chunk_size=chunk_size)
    predictions, targets = rows(keys_for(seed, Purpose.ILLUSTRATION, AGENTS))
    return np.stack([predictions.ravel(), targets.ravel()])


def slopes(
    value_loss: Callable, meta_params: Any, hyperparams: Any, errors: np.ndarray
) -> np.ndarray:
    """Return the loss's derivative by the prediction [samples] at observed errors [2, samples].

    The old prediction is the prediction, as in the first pass over a batch.
    """
    predictions, targets = errors
    slope = jax.vmap(jax.grad(value_loss, argnums=2), in_axes=(None, None, 0, 0, 0))
    return np.asarray(jax.jit(slope)(meta_params, hyperparams, predictions, targets, predictions))


def loss_curves(
    value_loss: Callable, meta_params: Any, hyperparams: Any, errors: np.ndarray
) -> dict[str, LossCurve]:
    """Return the learned and the hand-written losses over the observed range of errors."""
    predictions, targets = errors
    limit = float(np.quantile(np.abs(predictions - targets), 0.99)) or 1.0
    error = np.linspace(-limit, limit, 401, dtype=np.float32)
    target = np.full_like(error, np.median(targets))

    def curve(function, meta_params):
        arguments = (meta_params, hyperparams, target + error, target, target + error)
        axes = (None, None, 0, 0, 0)
        loss = jax.vmap(function, in_axes=axes)(*arguments)
        slope = jax.vmap(jax.grad(function, argnums=2), in_axes=axes)(*arguments)
        return LossCurve(error, np.asarray(loss), np.asarray(slope))

    return {
        LEARNED: curve(value_loss, meta_params),
        "squared": curve(losses.squared, None),
        "huber": curve(losses.huber, None),
    }


def scale_ratio(
    value_loss: Callable, meta_params: Any, hyperparams: Any, errors: np.ndarray
) -> float:
    """Return how much steeper the learned loss is than squared error, in root mean square."""
    learned = slopes(value_loss, meta_params, hyperparams, errors)
    squared = slopes(losses.squared, None, hyperparams, errors)
    ratio = np.sqrt(np.mean(np.square(learned)) / max(np.mean(np.square(squared)), 1e-12))
    return float(np.clip(ratio, 1e-6, 1e6))


def ablate_scale(
    comparison: Comparison,
    hyperparams: Any,
    ratio: float,
    *,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Exchange the scales of the learned loss and of squared error, with and without clipping.

    Args:
        comparison: holds the compiled contenders.
        hyperparams: those of the experiment.
        ratio: `scale_ratio`.
        seeds: held-out seeds of every variant.
        seed: of the experiment.
        progress: called with the number of frames just done.

    Returns:
        a row for each of the eight variants: `shape`, `scale`, `clipping`, `iqm`, `interval`.
    """
    coefficient = float(hyperparams.vf_coef)
    variants: list[Variant] = []
    rows: list[dict[str, Any]] = []
    for clipping in (True, False):
        clip = {} if clipping else {"max_grad_norm": float("inf")}
        for shape in (LEARNED, "squared"):
            for scale in (LEARNED, "squared"):
                factor = 1.0
                if shape != scale:
                    factor = 1.0 / ratio if shape == LEARNED else ratio
                settings = {"vf_coef": coefficient * factor, **clip}
                variants.append(Variant(f"{shape}/{scale}/{clipping}", shape, settings, 0))
                rows.append({"shape": shape, "scale": scale, "clipping": clipping, **settings})
    keys = keys_for(seed, Purpose.HELD_OUT, seeds)
    scores = comparison.train(variants, keys, progress)
    fitness = without_diverged(scores)
    for row, variant in zip(rows, variants, strict=True):
        summary = summarise(fitness[variant.name])
        row |= {"iqm": summary.iqm, "interval": list(summary.interval), "seeds": summary.seeds}
    return rows
