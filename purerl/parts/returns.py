"""Advantages and value targets, correct at termination and at truncation."""

import jax
import jax.numpy as jnp

from purerl.fast import loops

UNROLL = 16
"""Steps in one iteration on a GPU, where each is one short kernel."""


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


def q_lambda(
    reward: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    gamma: jax.Array | float,
    trace_decay: jax.Array | float,
) -> jax.Array:
    """Q(lambda) targets with greedy bootstrapping (Gallici et al. 2024, section 4; Peng 1994).

        G_t = r_t + gamma * (1 - terminated_t) * ((1 - lambda) * V(s'_t) + lambda * G_{t+1})

    `s'_t` is the state that the action led to, before any reset, and V its largest action value.
    G_{t+1} is V(s'_t) at a truncation and at the rollout's end: bootstrapped where the episode was
    cut. Where both flags are true, termination counts.

    Args:
        reward: [T, ...].
        next_value: [T, ...] V(s'_t).
        terminated: [T, ...] bool.
        truncated: [T, ...] bool.
        gamma: discount factor in [0, 1].
        trace_decay: lambda in [0, 1].

    Returns:
        value targets [T, ...].
    """
    inputs = reward, jnp.where(terminated, 0.0, next_value), jnp.logical_or(terminated, truncated)

    def backward(target, inputs):
        reward_t, next_value_t, done_t = inputs
        # Chosen before it is multiplied: 0 * NaN would carry a NaN into the episode before.
        change = trace_decay * jnp.where(done_t, 0.0, target - next_value_t)
        target = reward_t + gamma * (next_value_t + change)
        return target, target

    _, targets = loops.scan(backward, next_value[-1], inputs, unroll=UNROLL, reverse=True)
    return targets


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
