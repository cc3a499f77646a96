"""The few networks that learners share, and the policies that sit on top of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn.initializers import Initializer

from purerl.fast.activations import ACTIVATIONS
from purerl.fast.initializers import orthogonal
from purerl.fast.products import dot_general
from purerl.parts.recurrence import Recurrence

LECUN_NORMAL = nn.initializers.lecun_normal()
"""A kernel's variance is 1 / inputs (LeCun et al. 1998). With it DQN learns faster than with
orthogonal kernels: docs/reference/dqn.md."""


ILLEGAL = -1e9
"""The logit of an illegal action: its probability is 0, and its logarithm still a number."""
SMALLEST = float(jnp.finfo(jnp.float32).min)
LOG_STD = -20.0, 2.0
"""Within them lies a log standard deviation that depends on the state (Haarnoja et al. 2018)."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
"""Of the quadrature of a standard normal distribution; the weights add up to (2 pi)^(1/2)."""


def _dense(size: int, kernel_init: Initializer) -> nn.Dense:
    return nn.Dense(size, kernel_init=kernel_init, dot_general=dot_general)


class Torso(nn.Module):
    """Features of an observation: a multilayer perceptron, behind a convolution for images.

    Images are recognised by their shape [height, width, channels] and pass through 16 filters of
    3 x 3, the network of MinAtar (Young & Tian 2019, section 4).
    """

    obs_ndim: int
    hidden_sizes: Sequence[int]
    activation: str
    kernel_init: Initializer
    layer_norm: bool = False
    """before the activation of each dense layer (Ba et al. 2016)"""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map [..., *obs_shape] to [..., hidden_sizes[-1]]."""
        activation = ACTIVATIONS[self.activation]
        batch_shape = x.shape[: x.ndim - self.obs_ndim]
        if self.obs_ndim == 3:
            x = activation(nn.Conv(16, (3, 3), padding="VALID", kernel_init=self.kernel_init)(x))
        x = x.reshape(*batch_shape, -1)
        for size in self.hidden_sizes:
            x = _dense(size, self.kernel_init)(x)
            x = activation(nn.LayerNorm()(x) if self.layer_norm else x)
        return x


class ActorCritic(nn.Module):
    """A policy head and a value head, on one shared torso or on a torso each.

    All kernels start orthogonal; the output layers start small (policy) and at unit scale (value),
    as in PPO's usual implementations (Engstrom et al. 2020; Andrychowicz et al. 2021).

    With `recurrent_size`, a recurrence stands behind every torso: one that is shared, or one each.
    """

    obs_ndim: int
    policy_size: int
    """Logits of a discrete policy, or means of a continuous one."""
    continuous: bool
    hidden_sizes: Sequence[int]
    activation: str
    shared: bool
    layer_norm: bool = False
    recurrent_size: int = 0
    squash: bool = False
    """continuous actions are squashed by tanh, which changes the policy's entropy"""
    state_dependent_std: bool = False
    """of continuous actions"""

    def setup(self) -> None:
        """Create the layers."""
        kernel_init = orthogonal(2.0**0.5)
        torso = (self.obs_ndim, self.hidden_sizes, self.activation, kernel_init, self.layer_norm)
        self.actor_torso = Torso(*torso)
        self.critic_torso = self.actor_torso if self.shared else Torso(*torso)
        if self.recurrent_size:
            self.actor_memory = Recurrence(self.recurrent_size)
            if not self.shared:
                self.critic_memory = Recurrence(self.recurrent_size)
        self.policy_head = _dense(self.policy_size, orthogonal(0.01))
        self.value_head = _dense(1, orthogonal())
        if self.state_dependent_std:
            self.log_std: Any = _dense(self.policy_size, orthogonal(0.01))
        elif self.continuous:
            self.log_std = self.param("log_std", nn.initializers.zeros, (self.policy_size,))

    def __call__(
        self, obs: jax.Array, memory: jax.Array | None = None, done: jax.Array | None = None
    ) -> "tuple[Policy, jax.Array, jax.Array | None]":
        """Return the policy, the value [...] and what is remembered [..., M] at observations.

        Args:
            obs: [..., *obs_shape]; with `done` those of n sequences of T steps, time first: B =
                T * n.
            memory: [..., M] what was remembered before, by default nothing: zeros. With `done`
                [n, M], before the first step. Not used without recurrence, which returns None.
            done: [T, n] bool, whether an episode ended with a step; it ends what is remembered.
        """
        actor, critic = self.actor_torso(obs), self.critic_torso(obs)
        if self.recurrent_size:
            size = self.recurrent_size
            before: Any = self.no_memory(*critic.shape[:-1]) if memory is None else memory
            memory = actor = self.actor_memory(actor, before[..., :size], done)
            if self.shared:
                critic = actor
            else:
                critic = self.critic_memory(critic, before[..., size:], done)
                memory = jnp.concatenate([actor, critic], axis=-1)
        value = self.value_head(critic).squeeze(-1)
        head = self.policy_head(actor)
        if not self.continuous:
            return Categorical(head), value, memory
        log_std = self.log_std
        if self.state_dependent_std:
            log_std = jnp.clip(self.log_std(actor), *LOG_STD)
        policy = SquashedGaussian(head, log_std) if self.squash else Gaussian(head, log_std)
        return policy, value, memory

    def no_memory(self, *shape: int) -> jax.Array | None:
        """Return the memory [*shape, M] with which episodes begin; None without recurrence."""
        size = self.recurrent_size * (1 if self.shared else 2)
        return jnp.zeros((*shape, size)) if size else None


class ActorPredictor(nn.Module):
    """A policy head and a head of predictions on one torso; without hidden layers, tables.

    Tables start at zero: a uniform policy. Other kernels start orthogonal, as in `ActorCritic`.
    """

    obs_ndim: int
    num_actions: int
    prediction_size: int
    hidden_sizes: Sequence[int]
    activation: str

    def setup(self) -> None:
        """Create the layers."""
        torso = (self.obs_ndim, self.hidden_sizes, self.activation, orthogonal(2.0**0.5))
        self.torso = Torso(*torso)
        if self.hidden_sizes:
            self.policy_head = _dense(self.num_actions, orthogonal(0.01))
            self.prediction_head = _dense(self.prediction_size, orthogonal())
        else:
            table: dict[str, Any] = {"use_bias": False, "kernel_init": nn.initializers.zeros}
            self.policy_head = nn.Dense(self.num_actions, **table)
            self.prediction_head = nn.Dense(self.prediction_size, **table)

    def __call__(self, obs: jax.Array) -> "tuple[Categorical, jax.Array]":
        """Return the policy and predictions [..., prediction_size] at [..., *obs_shape]."""
        features = self.torso(obs)
        return Categorical(self.policy_head(features)), self.prediction_head(features)


class QNetwork(nn.Module):
    """The values of all actions; `dueling` splits them into a state's value and advantages.

    Dueling (Wang et al. 2016, equation 9): Q(s, a) = V(s) + A(s, a) - mean of A(s, .), with both
    heads on one torso.
    """

    obs_ndim: int
    num_actions: int
    hidden_sizes: Sequence[int]
    activation: str
    dueling: bool

    def setup(self) -> None:
        """Create the layers."""
        self.torso = Torso(self.obs_ndim, self.hidden_sizes, self.activation, LECUN_NORMAL)
        self.action_head = _dense(self.num_actions, LECUN_NORMAL)
        if self.dueling:
            self.value_head = _dense(1, LECUN_NORMAL)

    def __call__(self, obs: jax.Array) -> "ActionValues":
        """Return the values of all actions at observations [..., *obs_shape]."""
        features = self.torso(obs)
        values = self.action_head(features)
        if self.dueling:
            values = values - jnp.mean(values, axis=-1, keepdims=True) + self.value_head(features)
        return ActionValues(values)


class ActionValues(NamedTuple):
    """What every action is worth."""

    values: jax.Array
    """[..., num_actions]."""
    legal: jax.Array | None = None
    """[..., num_actions] bool: which actions can be chosen; None: all"""

    def best(self) -> jax.Array:
        """Return the actions [...] int32 of the largest values, of those that are legal."""
        values = self.values
        if self.legal is not None:  # also where networks have diverged
            values = jnp.where(self.legal, jnp.maximum(values, SMALLEST), -jnp.inf)
        return jnp.argmax(values, axis=-1).astype(jnp.int32)

    def of(self, action: jax.Array) -> jax.Array:
        """Return the values [...] of actions [...]."""
        one_hot = jax.nn.one_hot(action, self.values.shape[-1], dtype=self.values.dtype)
        return jnp.sum(one_hot * self.values, axis=-1)  # cheaper than a gather, backwards

    def epsilon_greedy(self, key: jax.Array, epsilon: jax.Array) -> jax.Array:
        """Return the best actions [...] int32, or with probability `epsilon` any, each its own.

        Both are legal ones only.
        """
        count: Any = self.values.shape[-1] if self.legal is None else jnp.sum(self.legal, axis=-1)
        # One number decides both: below epsilon it is uniform there, and so tells the action too.
        number = jax.random.uniform(key, self.values.shape[:-1])
        random = jnp.floor(number / jnp.maximum(epsilon, 1e-9) * count).astype(jnp.int32)
        random = jnp.minimum(random, count - 1)
        if self.legal is not None:  # that many legal actions come before it
            is_behind = jnp.cumsum(self.legal, axis=-1) > random[..., None]
            random = jnp.argmax(is_behind, axis=-1).astype(jnp.int32)
        return jnp.where(number < epsilon, random, self.best())


class Categorical(NamedTuple):
    """A distribution over a finite set of actions."""

    logits: jax.Array
    """[..., num_actions], unnormalised."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions [...] int32."""
        return jax.random.categorical(key, self.logits).astype(jnp.int32)

    def mode(self) -> jax.Array:
        """Return the likeliest actions [...] int32."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return log-probabilities [...] of actions [...]."""
        log_probs = jax.nn.log_softmax(self.logits)
        one_hot = jax.nn.one_hot(action, log_probs.shape[-1], dtype=log_probs.dtype)
        return jnp.sum(one_hot * log_probs, axis=-1)  # a product: cheaper than a gather, backwards

    def entropy(self) -> jax.Array:
        """Return entropies [...] in nats."""
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def among(self, legal: jax.Array | None) -> "Categorical":
        """Return the distribution if only some actions [..., num_actions] can be chosen."""
        return self if legal is None else Categorical(jnp.where(legal, self.logits, ILLEGAL))


class Gaussian(NamedTuple):
    """A normal distribution with independent components."""

    mean: jax.Array
    """[..., action_dim]."""
    log_std: jax.Array
    """[action_dim] in all states alike, or [..., action_dim]."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions [..., action_dim]."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self._log_std()) * noise

    def mode(self) -> jax.Array:
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

    def among(self, legal: jax.Array | None) -> "Gaussian":
        """Return the distribution itself: numbers are never illegal (`purerl.parts.masks`)."""
        del legal
        return self

    def _log_std(self) -> jax.Array:
        # spelt out, so that tests can forbid implicit rank promotion
        return jnp.broadcast_to(self.log_std, self.mean.shape)


class SquashedGaussian(Gaussian):
    """The distribution of numbers whose tanh is the action.

    The numbers stand for the actions: ratios of their densities are those of the actions, in which
    the derivative of tanh cancels.
    """

    def entropy(self) -> jax.Array:
        """Return differential entropies [...] of the actions in (-1, 1), in nats.

        That of the numbers, and the expectation of log(1 - tanh^2) by Gauss-Hermite quadrature.
        """
        std = jnp.exp(self._log_std())
        slope = sum(
            weight * _log_slope_of_tanh(self.mean + node * std)
            for node, weight in zip(NODES.tolist(), (WEIGHTS / WEIGHTS.sum()).tolist(), strict=True)
        )
        return super().entropy() + jnp.sum(slope, axis=-1)


def _log_slope_of_tanh(x: jax.Array) -> jax.Array:
    return 2.0 * (jnp.log(2.0) - x - jax.nn.softplus(-2.0 * x))


Policy = Categorical | Gaussian


def actor_critic(
    env: Any,
    env_params: Any,
    *,
    hidden_sizes: Sequence[int],
    activation: str,
    shared: bool,
    layer_norm: bool = False,
    recurrent_size: int = 0,
    squash: bool = False,
    state_dependent_std: bool = False,
) -> ActorCritic:
    """Build the actor-critic that fits an environment's spaces.

    Raises:
        ValueError: if the action space is neither discrete nor a bounded or unbounded vector, or
            actions that have no bounds are to be squashed.
    """
    action_space = env.action_space(env_params)
    discrete = hasattr(action_space, "n")
    if not discrete and len(getattr(action_space, "shape", ())) != 1:
        raise ValueError(f"{env.name}: PPO needs a discrete or a vector action space")
    if discrete and (squash or state_dependent_std):
        raise ValueError(
            f"{env.name}: has discrete actions; squash_actions and state_dependent_std are for "
            "continuous ones"
        )
    if squash and not np.isfinite([action_space.low, action_space.high]).all():
        raise ValueError(f"{env.name}: its actions have no bounds: squash_actions must be false")
    return ActorCritic(
        obs_ndim=len(env.observation_space(env_params).shape),
        policy_size=int(action_space.n) if discrete else int(action_space.shape[0]),
        continuous=not discrete,
        hidden_sizes=tuple(hidden_sizes),
        activation=activation,
        shared=shared,
        layer_norm=layer_norm,
        recurrent_size=recurrent_size,
        squash=squash,
        state_dependent_std=state_dependent_std,
    )


def actor_predictor(
    env: Any,
    env_params: Any,
    *,
    prediction_size: int,
    hidden_sizes: Sequence[int],
    activation: str,
) -> ActorPredictor:
    """Build the policy and predictions that fit an environment's spaces.

    Raises:
        ValueError: if the action space is not discrete.
    """
    action_space = env.action_space(env_params)
    if not hasattr(action_space, "n"):
        raise ValueError(f"{env.name}: LPG needs a discrete action space")
    return ActorPredictor(
        obs_ndim=len(env.observation_space(env_params).shape),
        num_actions=int(action_space.n),
        prediction_size=prediction_size,
        hidden_sizes=tuple(hidden_sizes),
        activation=activation,
    )


def q_network(
    env: Any,
    env_params: Any,
    *,
    hidden_sizes: Sequence[int],
    activation: str,
    dueling: bool,
) -> QNetwork:
    """Build the network of action values that fits an environment's spaces.

    Raises:
        ValueError: if the action space is not discrete.
    """
    action_space = env.action_space(env_params)
    if not hasattr(action_space, "n"):
        raise ValueError(f"{env.name}: DQN needs a discrete action space")
    return QNetwork(
        obs_ndim=len(env.observation_space(env_params).shape),
        num_actions=int(action_space.n),
        hidden_sizes=tuple(hidden_sizes),
        activation=activation,
        dueling=dueling,
    )
