"""Targets from a function of one step, in the terms of `purerl.parts.returns`."""

from collections.abc import Callable, Collection

import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.parts.returns import bootstrap, ends
from purerl.types import Context, Estimates, MetaParams, Rollout, TargetEstimator

LATER = {"delta_1": 1, "delta_2": 2, "delta_4": 4, "delta_8": 8}
"""Errors of later steps among the `STEP_INPUTS`, with how many steps later."""
FIXED = "gamma", "gae_lambda"
"""Hyperparameters among the `STEP_INPUTS`."""
STEP_INPUTS = (
    "delta",
    "next_advantage",
    "next_target",
    "reward",
    "value",
    "next_value",
    "terminated",
    "done",
    "log_prob",
    "ratio",
    *FIXED,
    *LATER,
)
"""Inputs of a function of one step, see `backwards`."""


def backwards(
    step: Callable[[MetaParams, Context, dict[str, jax.Array]], jax.Array],
    names: Collection[str] = STEP_INPUTS,
) -> TargetEstimator:
    """Return the function for the slot `targets` that applies another to each step, from the last.

    Args:
        step: `(meta_params, context, inputs) -> advantage`, elementwise. The target is the
            advantage plus the value.
        names: of the inputs that it reads.

    The inputs of step t, each [N] float32 or [], where V'_t is 0 after a termination:

        delta              r_t + gamma * V'_t - V_t
        next_advantage     0 if end_t, else the advantage of step t + 1
        next_target        V'_t if end_t, else the target of step t + 1
        reward, value      r_t, V_t
        next_value         V'_t
        terminated, done   1 or 0: whether the episode ended so, whether it ended at all
        log_prob, ratio    of the rollout; 0 and 1 where it has none
        gamma, gae_lambda  of the hyperparameters
        delta_k            delta of step t + k (see `LATER`), 0 after the end

    Raises:
        ValueError: when traced, if a rollout is too short for a later step.
    """

    def targets(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
        hyperparams, following, last = context.hyperparams, bootstrap(rollout), ends(rollout)
        ones = jnp.ones_like(rollout.reward)
        delta = rollout.reward + hyperparams.gamma * following - rollout.value
        known = {
            "delta": delta,
            "reward": rollout.reward,
            "value": rollout.value,
            "next_value": following,
            "terminated": rollout.terminated.astype(ones.dtype),
            "done": rollout.done.astype(ones.dtype),
            "log_prob": 0.0 * ones if rollout.log_prob is None else rollout.log_prob,
            "ratio": ones if rollout.ratio is None else rollout.ratio,
            **_later(delta, last, names),
        }
        known = {name: each for name, each in known.items() if name in names}
        fixed = {name: getattr(hyperparams, name) for name in names if name in FIXED}

        def backward(carry, inputs):
            known_t, value_t, following_t, end_t = inputs
            advantage, target = carry
            later = {
                "next_advantage": jnp.where(end_t, 0.0, advantage),
                "next_target": jnp.where(end_t, following_t, target),
            }
            advantage = step(meta_params, context, known_t | later | fixed)
            advantage = jnp.broadcast_to(jnp.asarray(advantage, value_t.dtype), value_t.shape)
            both = advantage, advantage + value_t
            return both, both

        inputs = known, rollout.value, following, last
        start = jnp.zeros_like(following[0])
        return Estimates(*loops.scan(backward, (start, start), inputs, reverse=True)[1])

    return targets


def _later(delta: jax.Array, last: jax.Array, names: Collection[str]) -> dict[str, jax.Array]:
    """Return the errors [T, N] of later steps by their names, as far as they are in `names`."""
    found = {}
    wanted = {steps: name for name, steps in LATER.items() if name in names}
    for steps in range(1, max(wanted, default=0) + 1):
        if steps >= len(delta):
            name = wanted[max(wanted)]
            raise ValueError(
                f"num_steps = {len(delta)}: {name} is the error {max(wanted)} steps later: must "
                f"be at least {max(wanted) + 1}, or leave out {name}"
            )
        delta = jnp.where(last, 0.0, jnp.concatenate([delta[1:], delta[-1:]]))
        if steps in wanted:
            found[wanted[steps]] = delta
    return found
