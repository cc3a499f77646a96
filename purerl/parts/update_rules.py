"""Hand-written update rules for the slot `update_rule` of `purerl.lpg`."""

import jax.numpy as jnp

from purerl.parts.returns import generalized_advantages
from purerl.types import Context, MetaParams, Slot, Targets, Trajectory, UpdateRule


def a2c(meta_params: MetaParams, context: Context, trajectory: Trajectory) -> Targets:
    """Advantage actor-critic (Mnih et al. 2016) with generalised advantages.

    The first number that an agent predicts is the value. Reads `hyperparams.gamma`, `gae_lambda`
    and `entropy_coef`.
    """
    hyperparams = context.hyperparams
    advantage, target = generalized_advantages(
        trajectory.reward,
        trajectory.prediction[..., 0],
        trajectory.next_prediction[..., 0],
        trajectory.terminated,
        trajectory.truncated,
        gamma=hyperparams.gamma,
        gae_lambda=hyperparams.gae_lambda,
    )
    return Targets(advantage, target, hyperparams.entropy_coef)


def targets(
    update_rule: UpdateRule, meta_params: MetaParams, context: Context, trajectory: Trajectory
) -> Targets:
    """Return the targets of a rule.

    Raises:
        ValueError: when traced, if they have other shapes than `Targets`.
    """
    found = update_rule(meta_params, context, trajectory)
    steps = trajectory.reward.shape
    shapes = tuple(map(jnp.shape, found))
    if shapes not in ((steps, steps, ()), (steps, trajectory.prediction.shape, ())):
        raise ValueError(
            f"targets of {steps[0]} steps in {steps[1]} environments have the shapes "
            f"{', '.join(map(str, shapes))}; see purerl.types.Targets"
        )
    return found


UPDATE_RULE = Slot(
    "update_rule",
    {"a2c": a2c},
    arguments=("trajectory",),
    # a learned rule brings its own discounts, traces and exploration
    ranges={
        "a2c": {
            "gamma": {"choice": [0.9, 0.95, 0.99]},
            "gae_lambda": {"uniform": [0.5, 1.0]},
            "entropy_coef": {"log_uniform": [1e-4, 0.1]},
        }
    },
)
