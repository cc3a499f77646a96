"""Values of next states, computed only where they are not known yet.

In place of

    def next_values(critic, parameters, value, final_obs, terminated, truncated):
        return critic(parameters, final_obs)

which evaluates the critic for every step a second time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import PyTree


def next_values(
    critic: Callable[[PyTree, PyTree], jax.Array],
    parameters: PyTree,
    value: jax.Array,
    final_obs: PyTree,
    terminated: jax.Array,
    truncated: jax.Array,
) -> jax.Array:
    """Return the values [T, N] of the states after the actions, before any reset.

    Within an episode, the value of the next step is reused. The critic is evaluated only after the
    last step of the rollout and at truncations, in rounds: each round takes the first open
    truncation of every environment. The number of rounds is the largest number of truncations in
    an environment (under `vmap`, of any agent), so for very short episodes that are all truncated,
    one evaluation of all steps would be cheaper. Derivatives, in reverse mode only, evaluate all.
    Values are arbitrary where an episode terminated.

    Args:
        critic: maps parameters and inputs [N, ...] to values [N]. It must not close over tracers.
        parameters: of the critic.
        value: [T, N] the critic's values of the observations before the actions.
        final_obs: [T, N, ...] inputs after the actions, before a reset; within an episode they
            equal the inputs of the next step. Any pytree, such as observations and memories.
        terminated: [T, N] bool.
        truncated: [T, N] bool.
    """
    unanswered = jnp.logical_and(truncated, ~terminated).at[-1].set(True)
    return _answered_one_by_one(critic, unanswered, parameters, value, final_obs)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _answered_one_by_one(
    critic: Callable, unanswered: jax.Array, parameters: PyTree, value: jax.Array, final_obs: PyTree
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
    critic: Callable, unanswered: jax.Array, parameters: PyTree, value: jax.Array, final_obs: PyTree
) -> jax.Array:
    """The same, for derivatives: JAX cannot go backwards through a loop of unknown length."""
    answers = jax.vmap(lambda obs: critic(parameters, obs))(final_obs)
    return jnp.where(unanswered, answers, _shifted(value))


def _answers_and_inputs(
    critic: Callable, unanswered: jax.Array, *inputs: PyTree
) -> tuple[jax.Array, PyTree]:
    return _answered_one_by_one(critic, unanswered, *inputs), (unanswered, inputs)


def _pull_back(critic: Callable, residuals: Any, gradient: jax.Array) -> tuple:
    unanswered, inputs = residuals
    _, pullback = jax.vjp(partial(_answered_at_once, critic, unanswered), *inputs)
    return None, *pullback(gradient)


_answered_one_by_one.defvjp(_answers_and_inputs, _pull_back)


def _shifted(value: jax.Array) -> jax.Array:
    """The values of the next step; the last one is repeated."""
    return jnp.concatenate([value[1:], value[-1:]])
