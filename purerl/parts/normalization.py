"""Normalisation of observations, rewards and advantages."""

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
        """Return statistics without data: mean 0 and variance 1."""
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

    def normalize(self, x: jax.Array) -> jax.Array:
        """Return (x - mean) / std of numbers [..., *shape], clipped to [-10, 10]."""
        mean, variance = (jnp.broadcast_to(leaf, x.shape) for leaf in (self.mean, self.variance))
        return jnp.clip((x - mean) * jax.lax.rsqrt(variance + 1e-8), -10.0, 10.0)


def normalized(x: jax.Array, statistics: RunningStatistics | None) -> jax.Array:
    """Return x [..., *shape] by statistics of [*shape], or as it is if there are none."""
    return x if statistics is None else statistics.normalize(x)


def standardized(x: jax.Array) -> jax.Array:
    """Return numbers [...] with mean 0 and standard deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-8)


class Normalizer(struct.PyTreeNode):
    """Running statistics by which an agent normalises observations and rewards."""

    observations: RunningStatistics | None
    """None: observations are used as they are"""
    returns: RunningStatistics | None
    """statistics of discounted returns; None: rewards are used as they are"""
    running_return: jax.Array
    """[N] discounted returns of the unfinished episodes"""

    @classmethod
    def create(cls, obs: jax.Array, *, observations: bool, rewards: bool) -> "Normalizer":
        """Return a normaliser for observations like `obs` [N, *obs_shape], without data yet."""
        return cls(
            RunningStatistics.create(obs.shape[1:]) if observations else None,
            RunningStatistics.create(()) if rewards else None,
            jnp.zeros(len(obs)),
        )

    def observe(self, obs: jax.Array) -> jax.Array:
        """Return normalised observations [..., *obs_shape]."""
        return normalized(obs, self.observations)

    def update(
        self, obs: jax.Array, reward: jax.Array, done: jax.Array, *, gamma: jax.Array | float
    ) -> tuple["Normalizer", jax.Array]:
        """Add a rollout to the statistics, and normalise its rewards by the new ones.

        Rewards [T, N] are divided by the standard deviation of discounted returns and clipped to
        [-10, 10] (Engstrom et al. 2020, section 3). Observations [T, N, *obs_shape] are raw; `done`
        [T, N] bool marks the ends of episodes, in either way.
        """
        observations, returns, running_return = self.observations, self.returns, self.running_return
        if returns is not None:
            discounted, running_return = discounted_running_returns(
                reward, done, running_return, gamma=gamma
            )
            returns = returns.merge(discounted)
            reward = jnp.clip(reward * jax.lax.rsqrt(returns.variance + 1e-8), -10.0, 10.0)
        if observations is not None:
            observations = observations.merge(obs)
        return Normalizer(observations, returns, running_return), reward


def discounted_running_returns(
    reward: jax.Array, done: jax.Array, initial: jax.Array, *, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Forward discounted sums R_t = r_t + gamma * R_{t-1}, restarted after an episode's end.

    Their variance is the scale by which rewards are normalised (Engstrom et al. 2020, section 3).
    Rewards and the flags `done` are [T, ...], the `initial` sums before the first step [...]. Also
    return the running sum [...] to begin the next rollout with.
    """

    def forward(running, inputs):
        reward_t, done_t = inputs
        running = reward_t + gamma * running
        return jnp.where(done_t, 0.0, running), running

    last, returns = jax.lax.scan(forward, initial, (reward, done))
    return returns, last
