"""The exploration schedule of Q-learners: the probability of random actions."""

import jax
import jax.numpy as jnp


def epsilon(
    frames: jax.Array | float,
    default_horizon: jax.Array | float,
    start: jax.Array | float,
    end: jax.Array | float | None,
    decay_steps: jax.Array | float | None,
) -> jax.Array:
    """Return the probability of a random action: linear in environment steps, then constant.

    Args:
        frames: [...] float32, environment steps so far.
        default_horizon: takes the place of `decay_steps` if that is None.
        start: probability at the start.
        end: probability after `decay_steps` environment steps; None: always `start`.
        decay_steps: environment steps until `end` is reached.
    """
    if end is None:
        return jnp.full(jnp.shape(frames), start, jnp.float32)
    horizon = default_horizon if decay_steps is None else decay_steps
    return start + (end - start) * jnp.minimum(frames / horizon, 1.0)


def split_uniform(uniform: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Split random numbers in [0, 1) into two decisions: whether to explore, and a choice.

    Numbers below epsilon explore. The choices are the numbers on either side of epsilon, stretched
    to [0, 1) again.
    """
    explore = uniform < epsilon
    choice = jnp.where(
        explore, uniform / jnp.maximum(epsilon, 1e-6), (uniform - epsilon) / (1.0 - epsilon)
    )
    return explore, choice
