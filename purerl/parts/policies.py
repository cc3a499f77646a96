"""Distributions over actions, made of outputs of networks."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.fast import arithmetic

LOG_STD = -20.0, 2.0
"""Bounds of a state-dependent log standard deviation (Haarnoja et al. 2018)."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
"""Gauss-Hermite quadrature of a standard normal; the weights sum to (2 pi)^(1/2)."""


class Categorical(NamedTuple):
    """A distribution over a finite set of actions."""

    logits: jax.Array
    """[..., num_actions], unnormalised."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions [...] int32."""
        return arithmetic.argmax(
            jax.random.gumbel(key, self.logits.shape, self.logits.dtype) + self.logits
        )

    def mode(self, key: jax.Array) -> jax.Array:
        """Return the likeliest actions [...] int32, ties broken at random."""
        return likeliest(self.logits, key)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return log-probabilities [...] of actions [...]."""
        log_probs = arithmetic.log_softmax(self.logits)
        one_hot = jax.nn.one_hot(action, log_probs.shape[-1], dtype=log_probs.dtype)
        return arithmetic.total(one_hot * log_probs)  # a product: cheaper than a gather, backwards

    def entropy(self) -> jax.Array:
        """Return entropies [...] in nats."""
        log_probs = arithmetic.log_softmax(self.logits)
        return -arithmetic.total(jnp.exp(log_probs) * log_probs)


class Gaussian(NamedTuple):
    """A normal distribution with independent components.

    In a box its samples are in units of the box: -1 and 1 are the bounds of an action. Components
    without two bounds are in units of the action.
    """

    mean: jax.Array
    """[..., action_dim]."""
    log_std: jax.Array
    """[action_dim] if it is independent of the state, else [..., action_dim]."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions [..., action_dim]."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self._log_std()) * noise

    def mode(self, key: jax.Array | None = None) -> jax.Array:
        """Return the mean [..., action_dim]."""
        return self.mean

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return log-densities [...] of actions [..., action_dim]."""
        normalised = (action - self.mean) * jnp.exp(-self._log_std())
        log_density = -0.5 * (jnp.square(normalised) + jnp.log(2 * jnp.pi)) - self._log_std()
        return jnp.sum(log_density, axis=-1)

    def entropy(self) -> jax.Array:
        """Return differential entropies [...] in nats."""
        entropy = jnp.sum(self.log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e), axis=-1)
        return jnp.broadcast_to(entropy, self.mean.shape[:-1])

    def bounded(self, action: jax.Array, space: Any) -> jax.Array:
        """Map samples [..., action_dim] to an action space, and clip them to its bounds."""
        low, high = _bounds(action, space)
        half_width = (high - low) / 2.0  # infinite also for the largest float32 as bounds
        mapped = low + half_width + half_width * action
        return jnp.clip(jnp.where(jnp.isfinite(half_width), mapped, action), low, high)

    def _log_std(self) -> jax.Array:
        # explicit, so that tests can forbid implicit rank promotion
        return jnp.broadcast_to(self.log_std, self.mean.shape)


class SquashedGaussian(Gaussian):
    """A distribution before the tanh that maps its samples to actions.

    Log-probabilities refer to the samples before tanh. Their ratios equal the ratios for the
    actions, because the derivative of tanh cancels.
    """

    def bounded(self, action: jax.Array, space: Any) -> jax.Array:
        """Map samples [..., action_dim] into the bounds of an action space by tanh."""
        low, high = _bounds(action, space)
        return low + (high - low) * (jnp.tanh(action) + 1.0) / 2.0

    def entropy(self) -> jax.Array:
        """Return differential entropies [...] of the actions in (-1, 1), in nats.

        The entropy before tanh plus the mean of log(1 - tanh^2), by Gauss-Hermite quadrature.
        """
        std = jnp.exp(self._log_std())
        slope = sum(
            weight * log_slope_of_tanh(self.mean + node * std)
            for node, weight in zip(NODES.tolist(), (WEIGHTS / WEIGHTS.sum()).tolist(), strict=True)
        )
        return super().entropy() + jnp.sum(slope, axis=-1)


def choose(among: jax.Array, uniform: jax.Array) -> jax.Array:
    """Return actions [...] int32 of non-empty sets [..., num_actions] bool.

    All actions of a set have the same probability. `uniform` [...] are random numbers in [0, 1).
    """
    counts = jnp.cumsum(among, axis=-1)
    count = counts[..., -1]
    rank = jnp.minimum(jnp.floor(uniform * count).astype(jnp.int32), count - 1)
    return jnp.argmax(counts > rank[..., None], axis=-1).astype(jnp.int32)


def likeliest(values: jax.Array, key: jax.Array) -> jax.Array:
    """Return the actions [...] with the largest values, or values NaN; ties broken at random."""
    largest = jnp.max(values, axis=-1, keepdims=True)
    among = jnp.logical_or(values == largest, jnp.isnan(values))
    return choose(among, jax.random.uniform(key, values.shape[:-1]))


def _bounds(action: jax.Array, space: Any) -> tuple[jax.Array, jax.Array]:
    """Return the bounds of an action space, broadcast to the shape of `action`."""
    low, high = (
        jnp.broadcast_to(jnp.asarray(bound, action.dtype), action.shape)
        for bound in (space.low, space.high)
    )
    return low, high


def log_slope_of_tanh(x: jax.Array) -> jax.Array:
    """Return log(1 - tanh(x)^2) [...]."""
    return 2.0 * (jnp.log(2.0) - x - jax.nn.softplus(-2.0 * x))


Policy = Categorical | Gaussian
