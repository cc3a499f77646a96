"""Several passes over a batch of rollouts, in minibatches."""

from typing import Any

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


def steps(
    config: Any, shuffle_key: jax.Array, slots_key: jax.Array, *, length: int
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the rows of every minibatch [gradient steps, rows] int32, and fields of its context.

    The fields, [gradient steps] each, are epoch and minibatch, as shares of all, and a key. Every
    pass visits all rows once, in a new random order, in which the `length` steps of an environment
    stay together. `config` is of PPO or PQN.
    """
    epochs, parts, count = config.update_epochs, config.num_minibatches, config.batch_size // length
    order = permutations(shuffle_key, epochs, count).reshape(epochs * parts, 1, -1)
    rows = (count * jnp.arange(length)[None, :, None] + order).reshape(epochs * parts, -1)
    epoch, part = jnp.divmod(jnp.arange(epochs * parts), parts)
    keys = jax.random.split(slots_key, epochs * parts)
    return rows, {"epoch": epoch / epochs, "minibatch": part / parts, "key": keys}
