"""Advantages and value targets, correct at termination and at truncation.

`gae`, `n_step`, `q_lambda` and `v_trace` fill the slot `targets`. In their docstrings,

    V_t, V'_t    are `value` and `next_value` of a `Rollout`; V'_t is 0 after a termination
    G_t          is the value target of step t
    end_t        is 1 at the end of an episode and in the last step of a rollout, else 0

They read `hyperparams.gamma`, and lambda from `hyperparams.gae_lambda`, whatever the learner.
`backwards` makes such a function of one for a single step.
"""

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.types import (
    Context,
    Estimates,
    MetaParams,
    Rollout,
    Slot,
    TargetEstimator,
)

UNROLL = 16
"""Steps in one iteration on a GPU, where each is one short kernel."""
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


def generalized_advantages(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    gamma: jax.Array | float,
    gae_lambda: jax.Array | float,
) -> tuple[jax.Array, jax.Array]:
    """Generalised advantage estimation (Schulman et al. 2016, equation 16).

        delta_t = r_t + gamma * (1 - terminated_t) * V(s'_t) - V(s_t)
        A_t     = delta_t + gamma * lambda * (1 - done_t) * A_{t+1}

    `s'_t` is the state that the action led to, before any reset: after a truncation the return is
    bootstrapped from it, and only a terminal state is worth zero. The trace is cut at either.
    Where both flags are true, termination counts.

    Args:
        reward: [T, ...].
        value: [T, ...] V(s_t).
        next_value: [T, ...] V(s'_t).
        terminated: [T, ...] bool.
        truncated: [T, ...] bool.
        gamma: discount factor in [0, 1].
        gae_lambda: trace decay in [0, 1].

    Returns:
        advantages [T, ...] and value targets [T, ...] (advantage + value).
    """
    delta = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    done, decay = jnp.logical_or(terminated, truncated), gamma * gae_lambda

    def backward(advantage, inputs):
        delta_t, done_t = inputs
        # Chosen before it is multiplied: 0 * NaN would carry a NaN into the episode before.
        advantage = delta_t + decay * jnp.where(done_t, 0.0, advantage)
        return advantage, advantage

    _, advantages = loops.scan(
        backward, jnp.zeros_like(delta[0]), (delta, done), unroll=UNROLL, reverse=True
    )
    return advantages, advantages + value


def gae(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Generalised advantage estimation: `generalized_advantages`.

    In a Q-learner it is Q*(lambda) without corrections (Harutyunyan et al. 2016): a sum of errors
    of the actions that were taken.
    """
    hyperparams = context.hyperparams
    return Estimates(
        *generalized_advantages(
            rollout.reward,
            rollout.value,
            rollout.next_value,
            rollout.terminated,
            rollout.truncated,
            gamma=hyperparams.gamma,
            gae_lambda=hyperparams.gae_lambda,
        )
    )


def n_step(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Returns of n steps (Sutton & Barto 2018, equation 7.1), n = `hyperparams.return_steps`.

        G1_t = r_t + gamma * V'_t
        Gn_t = r_t + gamma * (V'_t if end_t else G(n-1)_{t+1})

    The returns of the last steps of an episode or a rollout have fewer rewards. The advantage is
    Gn_t - V_t.
    """
    hyperparams, bootstrap = context.hyperparams, _bootstrap(rollout)

    def lengthened(target, n):
        later = jnp.concatenate([target[1:], target[-1:]])
        longer = rollout.reward + hyperparams.gamma * jnp.where(_ends(rollout), bootstrap, later)
        return jnp.where(n <= hyperparams.return_steps, longer, target), None

    one_step = rollout.reward + hyperparams.gamma * bootstrap
    target, _ = jax.lax.scan(lengthened, one_step, jnp.arange(2, len(one_step) + 1))
    return Estimates(target - rollout.value, target)


def q_lambda(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Peng's Q(lambda) (Peng & Williams 1996), as in PQN (Gallici et al. 2024, equation 11).

        G_t = r_t + gamma * ((1 - lambda) * V'_t + lambda * (V'_t if end_t else G_{t+1}))

    The advantage is G_t - V_t. With values of states, as in PPO, it is GAE.
    """
    hyperparams, bootstrap = context.hyperparams, _bootstrap(rollout)

    def backward(later, inputs):
        reward_t, bootstrap_t, end_t = inputs
        later = jnp.where(end_t, bootstrap_t, later)
        later = bootstrap_t + hyperparams.gae_lambda * (later - bootstrap_t)
        target = reward_t + hyperparams.gamma * later
        return target, target

    inputs = rollout.reward, bootstrap, _ends(rollout)
    start = jnp.zeros_like(bootstrap[0])
    _, target = loops.scan(backward, start, inputs, unroll=UNROLL, reverse=True)
    return Estimates(target - rollout.value, target)


def v_trace(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """V-trace (Espeholt et al. 2018, equation 1 and remark 2), with ratios clipped at 1.

        G_t - V_t = rho_t * (r_t + gamma * V'_t - V_t)
                    + gamma * lambda * rho_t * (0 if end_t else G_{t+1} - V_{t+1})
        A_t       = rho_t * (r_t + gamma * (V'_t if end_t else G_{t+1}) - V_t)

    rho_t is min(1, ratio_t), and 1 where a rollout has no ratios.
    """
    hyperparams, bootstrap, ends = context.hyperparams, _bootstrap(rollout), _ends(rollout)
    ratio = jnp.ones_like(bootstrap) if rollout.ratio is None else rollout.ratio
    rho = jnp.minimum(1.0, ratio)
    delta = rho * (rollout.reward + hyperparams.gamma * bootstrap - rollout.value)

    def backward(error, inputs):
        delta_t, decay_t, end_t = inputs
        error = delta_t + decay_t * jnp.where(end_t, 0.0, error)
        return error, error

    inputs = delta, hyperparams.gamma * hyperparams.gae_lambda * rho, ends
    start = jnp.zeros_like(bootstrap[0])
    _, error = loops.scan(backward, start, inputs, unroll=UNROLL, reverse=True)
    target = error + rollout.value
    later = jnp.where(ends, bootstrap, jnp.concatenate([target[1:], target[-1:]]))
    advantage = rho * (rollout.reward + hyperparams.gamma * later - rollout.value)
    return Estimates(advantage, target)


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
        hyperparams, bootstrap, ends = context.hyperparams, _bootstrap(rollout), _ends(rollout)
        ones = jnp.ones_like(rollout.reward)
        delta = rollout.reward + hyperparams.gamma * bootstrap - rollout.value
        known = {
            "delta": delta,
            "reward": rollout.reward,
            "value": rollout.value,
            "next_value": bootstrap,
            "terminated": rollout.terminated.astype(ones.dtype),
            "done": rollout.done.astype(ones.dtype),
            "log_prob": 0.0 * ones if rollout.log_prob is None else rollout.log_prob,
            "ratio": ones if rollout.ratio is None else rollout.ratio,
            **_later(delta, ends, names),
        }
        known = {name: each for name, each in known.items() if name in names}
        fixed = {name: getattr(hyperparams, name) for name in names if name in FIXED}

        def backward(carry, inputs):
            known_t, value_t, bootstrap_t, end_t = inputs
            advantage, target = carry
            later = {
                "next_advantage": jnp.where(end_t, 0.0, advantage),
                "next_target": jnp.where(end_t, bootstrap_t, target),
            }
            advantage = step(meta_params, context, known_t | later | fixed)
            advantage = jnp.broadcast_to(jnp.asarray(advantage, value_t.dtype), value_t.shape)
            both = advantage, advantage + value_t
            return both, both

        inputs = known, rollout.value, bootstrap, ends
        start = jnp.zeros_like(bootstrap[0])
        return Estimates(*loops.scan(backward, (start, start), inputs, reverse=True)[1])

    return targets


def _later(delta: jax.Array, ends: jax.Array, names: Collection[str]) -> dict[str, jax.Array]:
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
        delta = jnp.where(ends, 0.0, jnp.concatenate([delta[1:], delta[-1:]]))
        if steps in wanted:
            found[wanted[steps]] = delta
    return found


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


def _bootstrap(rollout: Rollout) -> jax.Array:
    """Return the values [T, N] of the states that actions led to; terminal ones are worth zero."""
    return jnp.where(rollout.terminated, 0.0, rollout.next_value)


def _ends(rollout: Rollout) -> jax.Array:
    """[T, N] bool: the step's successor is not in the rollout."""
    return rollout.done.at[-1].set(True)


TARGETS = Slot(
    "targets",
    {"gae": gae, "n_step": n_step, "q_lambda": q_lambda, "v_trace": v_trace},
    arguments=("rollout",),
    ranges={"n_step": {"return_steps": {"choice": [1, 3, 5, 10, 20]}}},
    returns_numbers=True,
)


def discounted_running_returns(
    reward: jax.Array, done: jax.Array, initial: jax.Array, *, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Forward discounted sums R_t = r_t + gamma * R_{t-1}, restarted after an episode's end.

    Their variance is the scale by which rewards are normalised (Engstrom et al. 2020, section 3).
    Rewards and the flags `done` are [T, ...], the `initial` sums before the first step [...].

    Returns:
        the sums [T, ...], and the running sum [...] to begin the next rollout with.
    """

    def forward(running, inputs):
        reward_t, done_t = inputs
        running = reward_t + gamma * running
        return jnp.where(done_t, 0.0, running), running

    last, returns = jax.lax.scan(forward, initial, (reward, done))
    return returns, last
