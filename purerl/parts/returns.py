"""Advantages and value targets, correct at termination and at truncation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp


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

    Args:
        reward: [T, ...] rewards.
        value: [T, ...] V(s_t).
        next_value: [T, ...] V(s'_t), evaluated on the observation before a reset.
        terminated: [T, ...] bool.
        truncated: [T, ...] bool; where both flags are true, termination counts.
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

    _, advantages = jax.lax.scan(backward, jnp.zeros_like(delta[0]), (delta, done), reverse=True)
    return advantages, advantages + value


def next_values(
    critic: Callable[[Any, jax.Array], jax.Array],
    parameters: Any,
    value: jax.Array,
    final_obs: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
) -> jax.Array:
    """Values of the states that actions led to, before any reset.

    Within an episode they are those of the next step. The critic is asked only after the last step
    of the rollout, and for the ends that truncation made: in rounds, of which each answers the
    first open one of every environment. There are as many rounds as the environment with most
    truncations has (under `vmap` that of all agents), so episodes of a few steps, all truncated,
    would be cheaper all at once. Derivatives, in reverse mode only, ask for every step.

    Args:
        critic: from parameters and observations [N, ...] to values [N]. It must not close over
            tracers.
        parameters: of the critic.
        value: [T, N] the critic's values of the observations in which actions were taken.
        final_obs: [T, N, ...] observations that actions led to, before a reset: within an episode
            those of the next step.
        terminated: [T, N] bool.
        truncated: [T, N] bool.

    Returns:
        [T, N]; where an episode terminated it means nothing, as no value is left there.
    """
    unanswered = jnp.logical_and(truncated, ~terminated).at[-1].set(True)
    return _answered_one_by_one(critic, unanswered, parameters, value, final_obs)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _answered_one_by_one(
    critic: Callable, unanswered: jax.Array, parameters: Any, value: jax.Array, final_obs: jax.Array
) -> jax.Array:
    steps, environments = (jnp.arange(length) for length in value.shape)

    def answer_first(carry):
        values, unanswered = carry
        first = jnp.argmax(unanswered, axis=0)  # [N]
        here = jnp.logical_and(unanswered, steps[:, None] == first[None])
        answers = critic(parameters, final_obs[first, environments])
        return jnp.where(here, answers[None], values), jnp.logical_and(unanswered, ~here)

    last = critic(parameters, final_obs[-1])  # of all environments, so without the loop
    carry = _shifted(value).at[-1].set(last), unanswered.at[-1].set(False)
    values, _ = jax.lax.while_loop(lambda carry: carry[1].any(), answer_first, carry)
    return values


def _answered_at_once(
    critic: Callable, unanswered: jax.Array, parameters: Any, value: jax.Array, final_obs: jax.Array
) -> jax.Array:
    """The same, for derivatives: JAX cannot go backwards through a loop of unknown length."""
    answers = jax.vmap(lambda obs: critic(parameters, obs))(final_obs)
    return jnp.where(unanswered, answers, _shifted(value))


def _answers_and_inputs(
    critic: Callable, unanswered: jax.Array, *inputs: Any
) -> tuple[jax.Array, Any]:
    return _answered_one_by_one(critic, unanswered, *inputs), (unanswered, inputs)


def _pull_back(critic: Callable, residuals: Any, gradient: jax.Array) -> tuple:
    unanswered, inputs = residuals
    _, pullback = jax.vjp(partial(_answered_at_once, critic, unanswered), *inputs)
    return None, *pullback(gradient)


_answered_one_by_one.defvjp(_answers_and_inputs, _pull_back)


def _shifted(value: jax.Array) -> jax.Array:
    """The values of the next step; the last one is repeated."""
    return jnp.concatenate([value[1:], value[-1:]])


def discounted_running_returns(
    reward: jax.Array, done: jax.Array, initial: jax.Array, *, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Forward discounted sums R_t = r_t + gamma * R_{t-1}, restarted after an episode's end.

    Their variance is the scale by which rewards are normalised (Engstrom et al. 2020, section 3).

    Args:
        reward: [T, ...].
        done: [T, ...] bool, the episode ended with this step.
        initial: [...] the running sum before the first step.
        gamma: discount factor in [0, 1].

    Returns:
        the sums [T, ...], and the running sum [...] to begin the next rollout with.
    """

    def forward(running, inputs):
        reward_t, done_t = inputs
        running = reward_t + gamma * running
        return jnp.where(done_t, 0.0, running), running

    last, returns = jax.lax.scan(forward, initial, (reward, done))
    return returns, last
