"""Several passes over a batch of rollouts, in minibatches."""

import jax
import jax.numpy as jnp

from purerl.fast.draws import permutations
from purerl.parts.training import BaseConfig
from purerl.types import SettingError


def check(config: BaseConfig, num_minibatches: int, *, whole_rollouts: bool) -> None:
    """Raise an error if a batch cannot be divided into minibatches, or into whole rollouts."""
    if config.frames_per_update % num_minibatches:
        raise ValueError(
            f"num_envs x num_steps = {config.frames_per_update} must be divisible by "
            f"num_minibatches = {num_minibatches}"
        )
    if whole_rollouts and config.num_envs % num_minibatches:
        raise SettingError(
            f"num_envs = {config.num_envs} must be divisible by num_minibatches = "
            f"{num_minibatches}: with a memory, minibatches hold whole rollouts"
        )


def order(
    key: jax.Array, batch_size: int, num_minibatches: int, epochs: int, *, length: int
) -> jax.Array:
    """Return the rows of every minibatch [gradient steps, rows] int32.

    Every pass visits all rows once, in a new random order, in which the `length` steps of an
    environment stay together.
    """
    steps, count = epochs * num_minibatches, batch_size // length
    order = permutations(key, epochs, count).reshape(steps, 1, -1)
    return (count * jnp.arange(length)[None, :, None] + order).reshape(steps, -1)
