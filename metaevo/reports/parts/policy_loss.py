"""Pictures of learned policy losses, compared with PPO's clip and DPO."""

from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np
from scipy.integrate import cumulative_trapezoid

from metaevo.parts.part import Evolved
from metaevo.reports.curve_plots import PolicyCurve, plot_policy_losses
from metaevo.reports.parts import quarters
from purerl.parts import losses
from purerl.types import Context, MetaParams

ADVANTAGES = (1.0, -1.0)
"""One standard deviation up and down, as PPO normalises advantages."""
SCALARS = 2
"""Arguments of a policy loss after meta_params and context: logarithm of the ratio, advantage."""
COMPARED = "clipped_surrogate", "dpo"
"""The hand-written losses in the picture."""
RATIO_LIMIT = 2.0
"""The picture shows ratios from 1 / RATIO_LIMIT to RATIO_LIMIT."""
CAPTIONS = {
    "policy_loss.png": "The discovered policy loss beside PPO's clip and DPO, for advantages "
    "of one standard deviation up and down. Above: the drift, what the objective is below "
    "ratio times advantage, less that at ratio 1; below: the objective's derivative, which pushes "
    "the policy. A loss that looks at time has a curve for every quarter of training.",
}


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
    """Say up to which ratios the loss pushes."""
    del observed
    log_ratio = np.linspace(0, np.log(2), 2001, dtype=np.float32)

    def sentence(function: Callable) -> str:
        slope = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, None))

        def reach(advantage: float) -> str:
            """Return the ratio of probabilities up to which an advantage pushes the policy."""
            path, context = log_ratio * np.sign(advantage), Context(found.hyperparams)
            push = -np.asarray(slope(found.meta_params, context, path, np.float32(advantage)))
            ends = np.flatnonzero(push * advantage <= 1e-6)
            return f"to {np.exp(path[ends[0]]):.3g}" if len(ends) else f"past {2.0**advantage:.3g}"

        return (
            "The policy loss pushes the ratio of probabilities (new / old) up "
            f"{reach(1.0)} at an advantage of +1 and down {reach(-1.0)} at -1."
        )

    return quarters.sentences(found, SCALARS, sentence)


def draw(found: Evolved, figures: Path) -> None:
    """Draw the learned loss and the hand-written losses into policy_loss.png.

    Drifts are zero at ratio 1: a constant in a loss has no gradient.
    """
    learned, known = quarters.quarters(found, SCALARS), losses.POLICY_LOSS.functions
    functions = {name: (function, found.meta_params) for name, function in learned.items()}
    functions |= {name: (known[name], None) for name in COMPARED}
    log_ratio = np.linspace(-np.log(RATIO_LIMIT), np.log(RATIO_LIMIT), 401, dtype=np.float32)
    ratio = np.exp(log_ratio)

    def curve(function: Callable, meta_params: MetaParams, advantage: float) -> PolicyCurve:
        context = Context(found.hyperparams)
        slopes = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, None))
        slope = np.asarray(slopes(meta_params, context, log_ratio, np.float32(advantage)))
        # the value of a loss that is given by its slope is inexact where the slope jumps
        loss = cumulative_trapezoid(slope, log_ratio, initial=0.0)
        drift = loss - np.interp(0.0, log_ratio, loss) + (ratio - 1.0) * advantage
        return PolicyCurve(ratio, drift, -slope / ratio)

    panels = {
        advantage: {name: curve(*each, advantage) for name, each in functions.items()}
        for advantage in ADVANTAGES
    }
    plot_policy_losses(panels, figures / "policy_loss.png")
