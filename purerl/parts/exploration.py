"""How often an epsilon-greedy agent acts at random: the schedule that DQN and Q-learning share.

Their hyperparams have `epsilon_start`, `epsilon_end` and `epsilon_decay_steps`.
"""

import jax
import jax.numpy as jnp

from purerl.types import Hyperparams


def epsilon(
    hyperparams: Hyperparams, frames: jax.Array | float, default_horizon: float
) -> jax.Array:
    """Return the probability of a random action: linear in environment steps, then constant.

    Args:
        hyperparams: without an `epsilon_end` it is `epsilon_start` throughout.
        frames: [...] environment steps so far, float32.
        default_horizon: steps until `epsilon_end` where `epsilon_decay_steps` is None.
    """
    start, end = hyperparams.epsilon_start, hyperparams.epsilon_end
    if end is None:
        return jnp.broadcast_to(start, jnp.shape(frames))
    horizon = hyperparams.epsilon_decay_steps
    horizon = default_horizon if horizon is None else horizon
    return start + (end - start) * jnp.minimum(frames / horizon, 1.0)


def always(hyperparams: Hyperparams) -> Hyperparams:
    """Return hyperparams under which every action is random, of the same structure."""
    end = None if hyperparams.epsilon_end is None else 1.0
    return hyperparams.replace(epsilon_start=1.0, epsilon_end=end)
