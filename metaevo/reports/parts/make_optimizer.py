"""Figure of a learned optimizer's steps."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts.part import LEARNED, Evolved
from metaevo.reports.curve_plots import StepCurve, plot_steps
from purerl.parts import optimizers
from purerl.types import Context, Hyperparams, MetaParams

PROGRESS = {"start": 0.0, "middle": 0.5, "end": 1.0}
MOMENTA = -0.6, 0.0, 0.6
"""Means of the gradients before, in units of their root mean square."""
STEPS = 40
"""number of steps before the drawn step"""
SIZE = 1e-2
"""The gradient's root mean square: of 2,500 parameters, a norm of 0.5."""
GRADIENTS = np.linspace(-3.0, 3.0, 121, dtype=np.float32)
"""in units of SIZE"""
CAPTIONS = {
    "optimizer.png": "The discovered optimizer's next step for a parameter (solid) against its "
    "gradient, beside Adam's (dashed), in learning rates; the gradient in units of its usual size. "
    f"Before it came {STEPS} gradients with the same mean square and with the mean that the colour "
    "says. The learning rate is held constant, so that what differs from left to right is what was "
    "learned.",
}


def draw(found: Evolved, figures: Path) -> None:
    """Draw steps next to Adam's at several momenta and times of training, into optimizer.png."""
    learned, adam = both_curves(found)
    panels = {
        (row, time): {
            momentum: {
                LEARNED: StepCurve(GRADIENTS, learned[row][t, m]),
                "adam": StepCurve(GRADIENTS, adam[row][t, m]),
            }
            for m, momentum in enumerate(MOMENTA)
        }
        for row in learned
        for t, time in enumerate(PROGRESS)
    }
    plot_steps(panels, figures / "optimizer.png")


def both_curves(found: Evolved) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the steps of the learned optimizer and of Adam, after gradients with a mean.

    Returns:
        for the policy and the value, if the learner has both, [PROGRESS, MOMENTA, GRADIENTS] in
        learning rates; gradients are not clipped, and the learning rate is constant.
    """
    heads = {"value": "action_head"}
    if found.learner.slot("policy_loss"):
        heads = {"policy": "policy_head", "value": "value_head"}
    hyperparams = found.hyperparams.replace(max_grad_norm=jnp.inf, final_learning_rate=1.0)

    def curves(make_optimizer: Callable, meta_params: MetaParams) -> dict[str, np.ndarray]:
        steps = _steps(make_optimizer, meta_params, hyperparams, tuple(heads.values()))
        rate = float(hyperparams.learning_rate)
        return {key: np.asarray(steps[name]["kernel"]) / rate for key, name in heads.items()}

    return curves(found.apply, found.meta_params), curves(optimizers.adam, None)


@partial(jax.jit, static_argnums=(0, 3))
def _steps(
    make_optimizer: Callable,
    meta_params: MetaParams,
    hyperparams: Hyperparams,
    names: tuple[str, ...],
) -> Any:
    """Return an optimizer's steps in units of parameters; compiled once for all meta-parameters."""
    params = {"params": {name: {"kernel": jnp.full(GRADIENTS.shape, 0.1)} for name in names}}
    of_all = jax.tree.map(jnp.ones_like, params)
    signs = (-1.0) ** jnp.arange(STEPS)

    @partial(jax.vmap, in_axes=(0, None))
    @partial(jax.vmap, in_axes=(None, 0))
    def steps(progress, momentum):
        context = Context(hyperparams, progress, 100)
        optimizer = make_optimizer(meta_params, context)

        def step(state, gradient):
            gradients = jax.tree.map(lambda ones: SIZE * gradient * ones, of_all)
            updates, state = optimizer.update(gradients, state, params, **context.extra_args())
            return state, updates

        before = momentum + jnp.sqrt(1.0 - momentum**2) * signs
        state, _ = jax.lax.scan(step, optimizer.init(params), before)
        return step(state, GRADIENTS)[1]

    return steps(jnp.asarray(list(PROGRESS.values())), jnp.asarray(MOMENTA))["params"]


def observe(found: Evolved) -> dict[str, float]:
    """Return its step size relative to Adam's at the start and at the end of training."""
    learned, adam = (
        np.sqrt(np.mean(np.square(list(curves.values())), axis=(0, 2, 3)))
        for curves in both_curves(found)
    )
    return {"start": float(learned[0] / adam[0]), "end": float(learned[-1] / adam[-1])}


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
    """Describe its step size relative to Adam's, from the results of `observe`."""
    sizes = observed if "start" in observed else observe(found)
    return [
        f"The learned optimizer's steps are {sizes['start']:.2g} times as large as Adam's with the "
        f"same learning rate at the start of training, and {sizes['end']:.2g} times at its end, "
        "annealing aside (root mean square over the curves of optimizer.png)."
    ]
