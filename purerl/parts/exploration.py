"""The exploration schedule that DQN and Q-learning share: the probability of random actions."""

from typing import Annotated, Self

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval
from flax import struct


class Hyperparams(struct.PyTreeNode):
    """Hyperparameters of epsilon-greedy exploration, inherited by a learner."""

    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = None
    """probability of a random action after epsilon_decay_steps; null: always epsilon_start"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached, linearly; by default total_timesteps"""

    def random_play(self) -> Self:
        """Return hyperparameters under which every action is random."""
        end = None if self.epsilon_end is None else 1.0
        return self.replace(epsilon_start=1.0, epsilon_end=end)


def epsilon(
    hyperparams: Hyperparams, frames: jax.Array | float, default_horizon: float
) -> jax.Array:
    """Return the probability of a random action: linear in environment steps, then constant.

    `frames` [...] float32 are the steps so far. The default horizon takes the place of
    `epsilon_decay_steps` if that is None; without `epsilon_end` the probability is constant.
    """
    start, end = hyperparams.epsilon_start, hyperparams.epsilon_end
    if end is None:
        return jnp.broadcast_to(start, jnp.shape(frames))
    horizon = hyperparams.epsilon_decay_steps
    horizon = default_horizon if horizon is None else horizon
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
