"""What is special to a learned value loss: its picture, and two ablations.

Scale against shape: a loss may win because it is large or small, not because of its shape (clipping
the gradient's norm couples the scale of PPO's value loss to the policy's step; the step size of
Q-learning is its loss's scale). So both are exchanged, one at a time.

The two sides of the error: a loss may win because it treats predictions that are too low and too
high differently. So the learned loss is taken apart, and its parts are given to squared error.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.agents.train_learner import Task, working_set
from metaevo.held_out.comparison import Comparison, Variant
from metaevo.held_out.evaluation import LEARNED, Contender, Progress, Scores, without_diverged
from metaevo.parallel import devices
from metaevo.parallel.seeding import Purpose, keys_for
from metaevo.report.page import Table
from metaevo.report.plots import LossCurve, plot_losses
from metaevo.statistics import summarise
from purerl.learners import LEARNERS
from purerl.parts import losses
from purerl.types import Context

AGENTS = 16
COMPARABLE = 1000.0
"""A loss steeper than squared error by a larger factor meets errors that are all but zero."""
DIVERGED = 1e15
"""A prediction or target of that size: the squares of larger ones would leave float32."""


def observed_errors(task: Task, hyperparams: Any, meta_params: Any, *, seed: int) -> np.ndarray:
    """Collect predictions and targets as the loss sees them, half-way through training.

    Args:
        task: with a hand-written loss in the slot.
        hyperparams: those of the experiment.
        meta_params: of the hand-written loss.
        seed: of the experiment.

    Returns:
        [2, samples]: predictions, targets, without those of agents that diverged; if all have, a
        single error of one.
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
    errors = np.stack([predictions.ravel(), targets.ravel()])
    usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
    return usable if usable.size else np.array([[1.0], [0.0]], np.float32)


def slopes(
    value_loss: Callable, meta_params: Any, hyperparams: Any, errors: np.ndarray
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


def loss_curves(
    value_loss: Callable, meta_params: Any, hyperparams: Any, errors: np.ndarray
) -> dict[str, LossCurve]:
    """Return the learned and the hand-written losses over the observed range of errors."""
    _, targets = errors
    limit = error_limit(errors)
    error = np.linspace(-limit, limit, 401, dtype=np.float32)
    target = np.full_like(error, np.median(targets))

    def curve(function, meta_params):
        arguments = (meta_params, Context(hyperparams), target + error, target, target + error)
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
    scale_name: str,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Exchange the scales of the learned loss and of squared error, with and without clipping.

    Args:
        comparison: holds the compiled contenders.
        hyperparams: those of the experiment.
        ratio: `scale_ratio`.
        scale_name: the hyperparam that multiplies the loss's gradient.
        seeds: held-out seeds of every variant.
        seed: of the experiment.
        progress: called with the number of frames just done.

    Returns:
        a row for each of `scale_ablation_variants`: `shape`, `scale`, `clipping`, `coefficient`,
        `iqm`, `interval`.
    """
    coefficient = float(getattr(hyperparams, scale_name))
    variants: list[Variant] = []
    rows: list[dict[str, Any]] = []
    for clipping in (True, False) if _can_clip(hyperparams) else (False,):
        clip = {"max_grad_norm": float("inf")} if _can_clip(hyperparams) and not clipping else {}
        for shape in (LEARNED, "squared"):
            for scale in (LEARNED, "squared"):
                factor = 1.0
                if shape != scale:
                    factor = 1.0 / ratio if shape == LEARNED else ratio
                settings = {scale_name: coefficient * factor, **clip}
                variants.append(Variant(f"{shape}/{scale}/{clipping}", shape, settings, 0))
                row = {"shape": shape, "scale": scale, "clipping": clipping}
                rows.append({**row, "coefficient": coefficient * factor})
    keys = keys_for(seed, Purpose.HELD_OUT, seeds)
    scores = comparison.train(variants, keys, progress)
    return _with_summaries(rows, [scores[variant.name] for variant in variants])


def scale_ablation_variants(hyperparams: Any) -> int:
    """Return how many variants `ablate_scale` trains."""
    return 8 if _can_clip(hyperparams) else 4


def _can_clip(hyperparams: Any) -> bool:
    return hasattr(hyperparams, "max_grad_norm")


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
"""The losses that `ablate_sides` compares."""


def sides_of(value_loss: Callable) -> Callable:
    """Return a slot function that takes a loss apart; see `SIDES`.

    With e the error and L(e) the loss, (L(e) + L(-e)) / 2 is its even part, which treats
    predictions that are too high like those that are too low, and (L(e) - L(-e)) / 2 its odd part.
    The slope at zero error is the simplest odd part: it pushes predictions up or down for ever, to
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


def ablate_sides(
    contender: Contender,
    meta_params: Any,
    *,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Train with the parts of the learned loss: is it the treatment of the two sides that wins?

    Args:
        contender: with `sides_of` the learned loss in the slot.
        meta_params: of the learned loss.
        seeds: held-out seeds of every variant.
        seed: of the experiment.
        progress: called with the number of frames just done.

    Returns:
        a row for each of `SIDES`: `loss`, `iqm`, `interval`.
    """
    keys = keys_for(seed, Purpose.HELD_OUT, seeds)
    chosen = [{"side": np.int32(i), "meta_params": meta_params} for i in range(len(SIDES))]
    scores = contender.run(keys, [{}] * len(SIDES), chosen, progress)
    return _with_summaries([{"loss": name} for name in SIDES], scores)


def _with_summaries(rows: list[dict[str, Any]], scores: list[Scores]) -> list[dict[str, Any]]:
    fitness = without_diverged({str(index): each for index, each in enumerate(scores)})
    for row, values in zip(rows, fitness.values(), strict=True):
        summary = summarise(values)
        row |= {"iqm": summary.iqm, "interval": list(summary.interval), "seeds": summary.seeds}
    return rows


def num_variants(settings: Any) -> int:
    """Return how many variants `Study.ablate` trains."""
    scaled = LEARNERS[settings.learner].loss_scale is not None
    return len(SIDES) + (scale_ablation_variants(settings.hyperparams) if scaled else 0)


class Study:
    """The picture and the ablations of one learned loss."""

    def __init__(
        self, settings: Any, comparison: Comparison, value_loss: Callable, meta_params: Any
    ):
        """Collect the errors that occur.

        Args:
            settings: of the experiment.
            comparison: holds the compiled contenders.
            value_loss: the learned loss.
            meta_params: its parameters.
        """
        self.settings, self.comparison = settings, comparison
        self.value_loss, self.meta_params = value_loss, meta_params
        task, seed = comparison.baselines.tasks[0], settings.run.seed
        self.errors = observed_errors(task, settings.hyperparams, np.int32(0), seed=seed)

    def draw(self, path: Path) -> None:
        """Draw the loss and its derivative beside hand-written ones."""
        hyperparams, errors = self.settings.hyperparams, self.errors
        curves = loss_curves(self.value_loss, self.meta_params, hyperparams, errors)
        plot_losses(curves, path, title="", density=errors[0] - errors[1])

    def observed(self) -> dict[str, float]:
        """Return what the loss's shape is described by: errors that occur, and their slopes."""
        predictions, targets = self.errors
        hyperparams = self.settings.hyperparams
        return {
            "error": error_limit(self.errors),
            "target": float(np.median(targets)),
            "steepness": scale_ratio(self.value_loss, self.meta_params, hyperparams, self.errors),
            "share_of_zero": float(np.mean(predictions == targets)),
        }

    def ablate(
        self, contender: Callable[[Callable, Any], Contender], progress: Progress
    ) -> dict[str, Any]:
        """Return `sides` and, where the learner has a scale for its loss, `ablation`."""
        hyperparams = self.settings.hyperparams
        options = {
            "seeds": self.settings.evaluation.ablation_seeds,
            "seed": self.settings.run.seed,
            "progress": progress,
        }
        result: dict[str, Any] = {}
        scale_name = LEARNERS[self.settings.learner].loss_scale
        if scale_name is not None:
            ratio = scale_ratio(self.value_loss, self.meta_params, hyperparams, self.errors)
            result["scale_ratio"] = ratio
            result["ablation"] = ablate_scale(
                self.comparison, hyperparams, ratio, scale_name=scale_name, **options
            )
        example = {"side": np.int32(0), "meta_params": self.meta_params}
        parts = contender(sides_of(self.value_loss), example)
        return {**result, "sides": ablate_sides(parts, self.meta_params, **options)}


def tables(result: dict[str, Any], scale_name: str | None) -> list[Table]:
    """Return the ablations in evaluation.json as tables for the report.

    Args:
        result: the content of evaluation.json.
        scale_name: the hyperparam that multiplies the loss's gradient.
    """
    found = []
    if "ablation" in result:
        found.append(_scale_table(result, scale_name))
    if "sides" in result:
        found.append(_sides_table(result))
    return found


def steepness_text(ratio: float) -> str:
    """Say how steep a loss is beside squared error.

    Args:
        ratio: `scale_ratio`.
    """
    if 1 / COMPARABLE <= ratio <= COMPARABLE:
        return (
            f"The learned loss is {ratio:.3g} times as steep as squared error (root mean square of "
            "the derivative at errors that occur)."
        )
    if ratio < 1:
        return "The learned loss is all but flat at the errors that occur."
    return (
        "At most of the errors that occur squared error is all but flat, for they are close to "
        f"zero; so that the learned loss is {ratio:.0e} times as steep there says little."
    )


def _scale_table(result: dict[str, Any], scale_name: Any) -> Table:
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
        f"{steepness_text(ratio)} Shape and scale are exchanged separately, with and without "
        "clipping of the gradient's norm where the learner clips."
    )
    columns = ["shape", "scale", "clipping", scale_name, "IQM", "95% interval"]
    return Table("Ablation: scale against shape", columns, rows, note=note)


def _sides_table(result: dict[str, Any]) -> Table:
    rows = []
    for row in result["sides"]:
        low, high = row["interval"]
        rows.append([row["loss"], row["iqm"], f"[{low:.4g}, {high:.4g}]"])
    note = (
        "The even part treats predictions that are too high like those that are too low; the odd "
        "part is the rest. A slope at zero error pushes predictions up or down without end."
    )
    columns = ["loss", "IQM", "95% interval"]
    return Table("Ablation: the two sides of the error", columns, rows, note=note)
