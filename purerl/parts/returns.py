"""Advantages and value targets, correct at termination and at truncation.

`gae`, `n_step` and `v_trace` fill the slot `targets`. In their docstrings,

    V_t, V'_t    are `value` and `next_value` of a `Rollout`; V'_t is 0 after a termination
    G_t          is the value target of step t
    end_t        is 1 at the end of an episode and in the last step of a rollout, else 0

They read `hyperparams.gamma`, and lambda from `hyperparams.gae_lambda`, whatever the learner.
`purerl.parts.step_targets` makes such a function of one for a single step.
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.types import Context, Estimates, MetaParams, Rollout, Slot, TargetEstimator, named

UNROLL = 16
"""Steps in one iteration on a GPU, where each is one short kernel."""


def gae(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Generalised advantage estimation (Schulman et al. 2016, equation 16).

        delta_t = r_t + gamma * V'_t - V_t
        A_t     = delta_t + gamma * lambda * (0 if end_t else A_{t+1})

    The target is A_t + V_t. In a Q-learner it is Q*(lambda) without corrections (Harutyunyan et al.
    2016): a sum of errors of the actions that were taken.
    """
    hyperparams = context.hyperparams
    delta = rollout.reward + hyperparams.gamma * bootstrap(rollout) - rollout.value
    advantage = _traced(delta, hyperparams.gamma * hyperparams.gae_lambda, rollout)
    return Estimates(advantage, advantage + rollout.value)


def n_step(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Returns of n steps (Sutton & Barto 2018, equation 7.1), n = `hyperparams.return_steps`.

        G1_t = r_t + gamma * V'_t
        Gn_t = r_t + gamma * (V'_t if end_t else G(n-1)_{t+1})

    The returns of the last steps of an episode or a rollout have fewer rewards. The advantage is
    Gn_t - V_t.
    """
    hyperparams, following = context.hyperparams, bootstrap(rollout)

    def lengthened(target, n):
        later = jnp.concatenate([target[1:], target[-1:]])
        longer = rollout.reward + hyperparams.gamma * jnp.where(ends(rollout), following, later)
        return jnp.where(n <= hyperparams.return_steps, longer, target), None

    one_step = rollout.reward + hyperparams.gamma * following
    target, _ = jax.lax.scan(lengthened, one_step, jnp.arange(2, len(one_step) + 1))
    return Estimates(target - rollout.value, target)


def v_trace(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """V-trace (Espeholt et al. 2018, equation 1 and remark 2), with ratios clipped at 1.

        G_t - V_t = rho_t * (r_t + gamma * V'_t - V_t)
                    + gamma * lambda * rho_t * (0 if end_t else G_{t+1} - V_{t+1})
        A_t       = rho_t * (r_t + gamma * (V'_t if end_t else G_{t+1}) - V_t)

    rho_t is min(1, ratio_t), and 1 where a rollout has no ratios.
    """
    hyperparams, following = context.hyperparams, bootstrap(rollout)
    rho = jnp.minimum(1.0, 1.0 if rollout.ratio is None else rollout.ratio)
    delta = rho * (rollout.reward + hyperparams.gamma * following - rollout.value)
    error = _traced(delta, hyperparams.gamma * hyperparams.gae_lambda * rho, rollout)
    target = error + rollout.value
    later = jnp.where(ends(rollout), following, jnp.concatenate([target[1:], target[-1:]]))
    advantage = rho * (rollout.reward + hyperparams.gamma * later - rollout.value)
    return Estimates(advantage, target)


def _traced(errors: jax.Array, decay: jax.Array, rollout: Rollout) -> jax.Array:
    """Return S_t = error_t + decay_t * (0 if end_t else S_{t+1}), [T, N]; decays [] or [T, N]."""

    def backward(later, inputs):
        error_t, end_t, *own = inputs
        (decay_t,) = own or (decay,)
        # Chosen before it is multiplied: 0 * NaN would carry a NaN into the episode before.
        total = error_t + decay_t * jnp.where(end_t, 0.0, later)
        return total, total

    inputs = errors, ends(rollout), *((decay,) if jnp.ndim(decay) else ())
    start = jnp.zeros_like(errors[0])
    return loops.scan(backward, start, inputs, unroll=UNROLL, reverse=True)[1]


def estimates(
    targets: TargetEstimator, meta_params: MetaParams, context: Context, rollout: Rollout
) -> Estimates:
    """Return what a function in the slot `targets` makes of a rollout.

    Raises:
        TypeError: when traced, if it is no `Estimates`.
        ValueError: when traced, if its arrays have another shape or type than the rewards.
    """
    found: Any = targets(meta_params, context, rollout)
    if not isinstance(found, Estimates):
        kind = type(found).__name__
        raise TypeError(
            f"targets must return purerl.types.Estimates(advantage, target), not {kind}"
        )
    wanted = jax.typeof(rollout.reward)
    for name, each in zip(found._fields, found, strict=True):
        if (jnp.shape(each), jnp.result_type(each)) != (wanted.shape, wanted.dtype):
            raise ValueError(
                f"targets: {name} is {jnp.result_type(each)}{list(jnp.shape(each))}: must be "
                f"{wanted.dtype}{list(wanted.shape)}, as the rewards [steps, environments]"
            )
    return found


def bootstrap(rollout: Rollout) -> jax.Array:
    """Return the values [T, N] of the states that actions led to; terminal ones are worth zero."""
    return jnp.where(rollout.terminated, 0.0, rollout.next_value)


def ends(rollout: Rollout) -> jax.Array:
    """[T, N] bool: the step's successor is not in the rollout."""
    return rollout.done.at[-1].set(True)


TARGETS = Slot(
    "targets",
    named(gae, n_step, v_trace),
    arguments=("rollout",),
    ranges={"n_step": {"return_steps": {"choice": [1, 3, 5, 10, 20]}}},
    returns_numbers=True,
)
