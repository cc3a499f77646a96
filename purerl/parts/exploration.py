"""The exploration of Q-learners: random actions, with a probability that falls."""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.parts import training


def epsilon(
    hyperparams: Any, frames: jax.Array | float, default_horizon: jax.Array | float
) -> jax.Array:
    """Return the probability of a random action: linear in environment steps, then constant.

    It goes from `hyperparams.epsilon_start` to `epsilon_end` (None: it stays) in
    `epsilon_decay_steps`, by default `default_horizon`; `frames` [...] float32 are the steps so
    far.
    """
    start, end = hyperparams.epsilon_start, hyperparams.epsilon_end
    if end is None:
        return jnp.full(jnp.shape(frames), start, jnp.float32)
    steps = hyperparams.epsilon_decay_steps
    horizon = default_horizon if steps is None else steps
    return start + (end - start) * jnp.minimum(frames / horizon, 1.0)


def random_play(hyperparams: Any) -> Any:
    """Return hyperparameters under which every action is random."""
    end = None if hyperparams.epsilon_end is None else 1.0
    return hyperparams.replace(epsilon_start=1.0, epsilon_end=end)


def total_frames(config: Any, state: Any) -> jax.Array:
    """Return the environment steps of an agent's training, [] float32."""
    return jnp.float32(training.length(config, state)) * config.frames_per_update


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
