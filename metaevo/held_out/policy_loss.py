"""What is special to a learned policy loss: its picture beside PPO's clip and DPO."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.held_out.evaluation import LEARNED
from metaevo.report.policy_plots import PolicyCurve, plot_policy_losses
from purerl.parts import losses
from purerl.types import Context

ADVANTAGES = (1.0, -1.0)
"""One standard deviation up and down, as PPO normalises advantages."""
RATIO_LIMIT = 2.0
"""The picture shows ratios from 1 / RATIO_LIMIT to RATIO_LIMIT."""


def policy_curves(
    policy_loss: Callable, meta_params: Any, hyperparams: Any, advantage: float
) -> dict[str, PolicyCurve]:
    """Return the learned and the hand-written losses against the ratio, at one advantage."""
    log_ratio = np.linspace(-np.log(RATIO_LIMIT), np.log(RATIO_LIMIT), 401, dtype=np.float32)

    def curve(function, meta_params):
        loss, slope = jax.vmap(
            jax.value_and_grad(function, argnums=2), in_axes=(None, None, 0, None)
        )(meta_params, Context(hyperparams), log_ratio, np.float32(advantage))
        ratio = np.exp(log_ratio)
        drift = np.asarray(loss) + ratio * advantage
        return PolicyCurve(ratio, drift, -np.asarray(slope) / ratio)

    curves = {LEARNED: curve(policy_loss, meta_params)}
    functions = losses.HAND_WRITTEN["policy_loss"]
    return curves | {name: curve(function, None) for name, function in functions.items()}


def draw(policy_loss: Callable, meta_params: Any, hyperparams: Any, path: Path) -> None:
    """Draw the learned loss beside the hand-written ones.

    Args:
        policy_loss: the slot function.
        meta_params: of it.
        hyperparams: those of the experiment, from which the hand-written losses take constants.
        path: of the PNG.
    """
    panels = {
        advantage: policy_curves(policy_loss, meta_params, hyperparams, advantage)
        for advantage in ADVANTAGES
    }
    plot_policy_losses(panels, path)
