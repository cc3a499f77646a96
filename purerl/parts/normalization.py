"""Running mean and variance of a stream of batches."""

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
