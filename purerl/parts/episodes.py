"""Returns of unfinished episodes, and sums over finished ones."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import EpisodeSums


class Unfinished(NamedTuple):
    """The unfinished episodes, one per environment."""

    returns: jax.Array
    """[N] undiscounted rewards so far."""
    lengths: jax.Array
    """[N] steps so far, float32."""


def begin(num_envs: int) -> Unfinished:
    """Return N episodes before their first step."""
    return Unfinished(jnp.zeros(num_envs), jnp.zeros(num_envs))


def zero_sums(num_envs: int) -> EpisodeSums:
    """Return sums without episodes, each [N]; they are added up over environments after a scan."""
    return EpisodeSums(*(jnp.zeros(num_envs) for _ in EpisodeSums._fields))


def record(
    unfinished: Unfinished, sums: EpisodeSums, reward: jax.Array, done: jax.Array
) -> tuple[Unfinished, EpisodeSums]:
    """Add one step of N environments: rewards [N] float32, and whether episodes ended [N] bool."""
    returns = unfinished.returns + reward
    lengths = unfinished.lengths + 1.0
    sums = EpisodeSums(
        episodes=sums.episodes + done,
        returns=sums.returns + jnp.where(done, returns, 0.0),
        lengths=sums.lengths + jnp.where(done, lengths, 0.0),
        rewards=sums.rewards + reward,
        steps=sums.steps + 1.0,
    )
    return Unfinished(jnp.where(done, 0.0, returns), jnp.where(done, 0.0, lengths)), sums
