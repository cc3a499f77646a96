"""Hand-written update rules for the slot `update_rule` of `purerl.lpg`."""

from purerl.parts.returns import generalized_advantages
from purerl.types import Context, MetaParams, Targets, Trajectory, UpdateRule


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


HAND_WRITTEN: dict[str, UpdateRule] = {"a2c": a2c}
"""The update rules by the names that configs use."""
