"""Time inputs of learned parts.

After "Discovering Temporally-Aware RL Algorithms" (Jackson et al. 2024): n / N and log N, where n
of N updates are done.
"""

import jax
import jax.numpy as jnp

from purerl.types import Context

LOG_SCALE = 10.0
"""The logarithm is divided by it: a training of 22,000 updates has 1, as its end has."""
SIZE = 2
"""Number of time inputs."""


def inputs(context: Context) -> jax.Array:
    """Return [SIZE]: the share of training that is done, and its length's scaled logarithm."""
    length = jnp.log(jnp.asarray(context.num_updates, jnp.float32)) / LOG_SCALE
    return jnp.stack([jnp.asarray(context.progress, jnp.float32), length])
