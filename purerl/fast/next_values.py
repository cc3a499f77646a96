"""Values of the states that actions led to, asked for where they are not known yet.

In place of

    def next_values(critic, parameters, value, final_obs, terminated, truncated):
        return critic(parameters, final_obs)

which asks for every step a second time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp


def next_values(
    critic: Callable[[Any, Any], jax.Array],
    parameters: Any,
    value: jax.Array,
    final_obs: Any,
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
            those of the next step. Any pytree, such as observations and what is remembered.
        terminated: [T, N] bool.
        truncated: [T, N] bool.

    Returns:
        [T, N]; where an episode terminated it means nothing, as no value is left there.
    """
    unanswered = jnp.logical_and(truncated, ~terminated).at[-1].set(True)
    return _answered_one_by_one(critic, unanswered, parameters, value, final_obs)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _answered_one_by_one(
    critic: Callable, unanswered: jax.Array, parameters: Any, value: jax.Array, final_obs: Any
) -> jax.Array:
    steps, environments = (jnp.arange(length) for length in value.shape)

    def answer_first(carry):
        values, unanswered = carry
        first = jnp.argmax(unanswered, axis=0)  # [N]
        here = jnp.logical_and(unanswered, steps[:, None] == first[None])
        answers = critic(parameters, jax.tree.map(lambda x: x[first, environments], final_obs))
        return jnp.where(here, answers[None], values), jnp.logical_and(unanswered, ~here)

    last = critic(
        parameters, jax.tree.map(lambda x: x[-1], final_obs)
    )  # of all environments, so without the loop
    carry = _shifted(value).at[-1].set(last), unanswered.at[-1].set(False)
    values, _ = jax.lax.while_loop(lambda carry: carry[1].any(), answer_first, carry)
    return values


def _answered_at_once(
    critic: Callable, unanswered: jax.Array, parameters: Any, value: jax.Array, final_obs: Any
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
