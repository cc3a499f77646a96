"""Numbers brought to a common scale: by running statistics, over a batch, into bounds."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


class RunningStatistics(struct.PyTreeNode):
    """Mean and variance of everything seen so far."""

    mean: jax.Array
    """[*shape]."""
    variance: jax.Array
    """[*shape], of the population (not the sample)."""
    count: jax.Array
    """[] number of items, float32."""

    @classmethod
    def create(cls, shape: tuple[int, ...]) -> "RunningStatistics":
        """Return statistics of nothing: mean 0 and variance 1."""
        return cls(jnp.zeros(shape), jnp.ones(shape), jnp.float32(0))

    def merge(self, batch: jax.Array) -> "RunningStatistics":
        """Return the statistics after a batch [..., *shape] (Chan et al. 1979, equation 2.1)."""
        axes = tuple(range(batch.ndim - self.mean.ndim))
        count = jnp.float32(batch.size / self.mean.size)
        delta = batch.mean(axes) - self.mean
        total = self.count + count
        mean = self.mean + delta * count / total
        squares = self.variance * self.count + batch.var(axes) * count
        squares += jnp.square(delta) * self.count * count / total
        return RunningStatistics(mean, squares / total, total)

    def normalize(self, x: jax.Array, *, limit: float = 10.0) -> jax.Array:
        """Return (x - mean) / std, clipped to [-limit, limit]."""
        return jnp.clip((x - self.mean) * jax.lax.rsqrt(self.variance + 1e-8), -limit, limit)


def normalized(x: jax.Array, statistics: RunningStatistics | None) -> jax.Array:
    """Return x [..., *shape] by statistics of [*shape], or as it is if there are none."""
    if statistics is None:
        return x
    mean, variance = (
        jnp.broadcast_to(leaf, x.shape) for leaf in (statistics.mean, statistics.variance)
    )
    return statistics.replace(mean=mean, variance=variance).normalize(x)


def standardized(x: jax.Array) -> jax.Array:
    """Return numbers [...] with mean 0 and standard deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-8)


def into_space(action: jax.Array, action_space: Any, *, squash: bool) -> jax.Array:
    """Return numbers [..., action_dim] of any size as actions; discrete actions as they are.

    Args:
        action: what a policy has drawn.
        action_space: with `low` and `high`, unless it is discrete.
        squash: bring numbers between the bounds by tanh, instead of clipping them.
    """
    if hasattr(action_space, "n"):
        return action
    low, high = (
        jnp.broadcast_to(jnp.asarray(bound, action.dtype), action.shape)
        for bound in (action_space.low, action_space.high)
    )
    if not squash:
        return jnp.clip(action, low, high)
    return low + (high - low) * (jnp.tanh(action) + 1.0) / 2.0
