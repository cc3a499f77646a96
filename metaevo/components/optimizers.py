"""What every learned optimizer has: a picture of its steps, and a table of its inputs' worth."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.component import LEARNED, Found
from metaevo.components.optimizer import INPUTS
from metaevo.report.optimizer_plots import StepCurve, plot_steps
from metaevo.report.page import Table
from purerl.learners import LearnerEntry
from purerl.parts import optimizers
from purerl.types import Context

PROGRESS = {"start": 0.0, "middle": 0.5, "end": 1.0}
MOMENTA = -0.6, 0.0, 0.6
"""Means of the gradients before, in units of their root mean square."""
STEPS = 40
"""so many before the one that is drawn"""
SIZE = 1e-2
"""The gradient's root mean square: of 2,500 parameters, a norm of 0.5."""
CAPTIONS = {
    "optimizer.png": "The discovered optimizer's next step for a parameter (solid) against its "
    "gradient, beside Adam's (dashed), in learning rates; the gradient in units of its usual size. "
    f"Before it came {STEPS} gradients with the same mean square and with the mean that the colour "
    "says. The learning rate is held constant, so that what differs from left to right is what was "
    "learned.",
}


def draw(found: Found, figures: Path) -> None:
    """Draw steps at several momenta and times of training beside Adam's, into optimizer.png."""
    heads = {"policy": "policy_head", "value": "value_head"}
    rows = heads if "policy_loss" in found.learner.slots else {"value": "action_head"}
    panels = {
        (row, time): {
            momentum: {
                LEARNED: step_curve(
                    found.apply, found.meta_params, found.hyperparams, head, progress, momentum
                ),
                "adam": step_curve(
                    optimizers.adam, None, found.hyperparams, head, progress, momentum
                ),
            }
            for momentum in MOMENTA
        }
        for row, head in rows.items()
        for time, progress in PROGRESS.items()
    }
    plot_steps(panels, figures / "optimizer.png")


def step_curve(
    make_optimizer: Callable,
    meta_params: Any,
    hyperparams: Any,
    head: str,
    progress: float,
    momentum: float,
) -> StepCurve:
    """Return an optimizer's step against the gradient, after gradients with a mean.

    Args:
        make_optimizer: fills the slot.
        meta_params: of it.
        hyperparams: of the learner; gradients are not clipped, the learning rate is constant.
        head: the part of the network whose parameters take the step, by flax's name.
        progress: share of training that is done.
        momentum: mean of the gradients before, in units of their root mean square.
    """
    hyperparams = hyperparams.replace(max_grad_norm=jnp.inf, final_learning_rate=1.0)
    grid = jnp.linspace(-3.0, 3.0, 121)
    context = Context(hyperparams, jnp.float32(progress), 100, frames=jnp.float32(0.0))
    optimizer = make_optimizer(meta_params, context)
    params = {"params": {head: {"kernel": 0.1 * jnp.ones_like(grid)}}}

    def step(state, gradient):
        gradients = {"params": {head: {"kernel": SIZE * gradient}}}
        updates, state = optimizer.update(gradients, state, params, **context.extra_args())
        return state, updates["params"][head]["kernel"]

    @jax.jit
    def steps():
        signs = (-1.0) ** jnp.arange(STEPS)
        before = momentum + (1.0 - momentum**2) ** 0.5 * signs
        before = jnp.broadcast_to(before[:, None], (STEPS, grid.size))
        state, _ = jax.lax.scan(step, optimizer.init(params), before)
        return step(state, grid)[1]

    # Where an optimizer's learning rate is zero, so is its step.
    scale = max(abs(float(hyperparams.learning_rate)), 1e-30)
    return StepCurve(np.asarray(grid), np.asarray(steps()) / scale)


def findings(found: Found, observed: Mapping[str, float]) -> list[str]:
    """Say how large its steps are beside Adam's, and how they change in the course of training."""
    del observed
    head = "policy_head" if "policy_loss" in found.learner.slots else "action_head"

    def size(make_optimizer, meta_params, progress):
        curves = [
            step_curve(make_optimizer, meta_params, found.hyperparams, head, progress, momentum)
            for momentum in MOMENTA
        ]
        return float(np.sqrt(np.mean(np.square([curve.step for curve in curves]))))

    adam = size(optimizers.adam, None, 0.0)
    start, end = (size(found.apply, found.meta_params, progress) / adam for progress in (0.0, 1.0))
    return [
        f"The learned optimizer's steps are {start:.2g} times as large as Adam's with the same "
        f"learning rate at the start of training, and {end:.2g} times at its end, before any "
        "annealing (root mean square over the curves of optimizer.png)."
    ]


def tables(result: dict[str, Any], learner: LearnerEntry) -> list[Table]:
    """Return what each input is worth."""
    del learner
    if INPUTS not in result:
        return []
    rows = []
    for row in result[INPUTS]:
        low, high = row["interval"]
        rows.append([row["without"], row["iqm"], f"[{low:.4g}, {high:.4g}]"])
    note = "The learned optimizer, untuned, on held-out seeds, with one input at a time set to zero."
    columns = ["without", "IQM", "95% interval"]
    return [Table("Ablation: what each input is worth", columns, rows, note=note)]
