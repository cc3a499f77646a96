"""The exploration of Q-learners: random actions, with a probability that falls."""

from typing import Annotated, Any, Self

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval
from flax import struct

from purerl.parts import training


class Hyperparams(struct.PyTreeNode):
    """Hyperparameters of exploration, of learners that act epsilon-greedily."""

    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = 0.05
    """probability of a random action after epsilon_decay_steps; null: always epsilon_start"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached"""

    def epsilon(self, frames: jax.Array | float, default_horizon: jax.Array | float) -> jax.Array:
        """Return the probability of a random action: linear in environment steps, then constant.

        `frames` [...] float32 are the steps so far; `default_horizon` takes the place of
        `epsilon_decay_steps` if that is None.
        """
        start, end = self.epsilon_start, self.epsilon_end
        if end is None:
            return jnp.full(jnp.shape(frames), start, jnp.float32)
        steps = self.epsilon_decay_steps
        horizon = default_horizon if steps is None else steps
        return start + (end - start) * jnp.minimum(frames / horizon, 1.0)

    def random_play(self) -> Self:
        """Return hyperparameters under which every action is random."""
        end = None if self.epsilon_end is None else 1.0
        return self.replace(epsilon_start=1.0, epsilon_end=end)


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
