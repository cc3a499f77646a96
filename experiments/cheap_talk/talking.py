"""Cheap talk (Lu et al. 2023): messages appended to observations, learned and hand-written.

A message is a function of the observation alone, so it adds no information to the observation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval, MaxLen, MinLen
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.adapter import Parameterised
from purerl.parts.networks import LECUN_NORMAL, Torso
from purerl.types import EnvParams

Channel = Callable[[Any, jax.Array], jax.Array]
"""`(meta_params, observation) -> message` [width]."""
HAND_WRITTEN = ("silence", "constant", "random", "noise")
"""Channels that say zeros, the same for every observation, what a network with random weights says,
and uniform numbers with the bits of the observation as their seed."""
UNITS = Annotated[int, Interval(gt=0, le=4096)]


@dataclass(frozen=True)
class Messenger:
    """The network of messages: relu layers, then `scale * tanh`."""

    width: Annotated[int, Interval(gt=0, le=1024)] = 2
    """numbers of a message"""
    scale: Annotated[float, Gt(0)] = 2 * math.pi
    """bound of the numbers of a message"""
    hidden_sizes: Annotated[tuple[UNITS, ...], MinLen(1), MaxLen(16)] = (64, 64)
    """units of each hidden layer"""

    def init(self, key: jax.Array, obs_size: int) -> Any:
        """Draw weights for observations [obs_size]."""
        return self._network.init(key, jnp.zeros(obs_size))

    def message(self, weights: Any, obs: jax.Array) -> jax.Array:
        """Return the messages [..., width] of observations [..., obs_size]; a `Channel`."""
        return self.scale * self._network.apply(weights, obs)

    def speak(self, spoken: tuple[Any, jax.Array, jax.Array], obs: jax.Array) -> jax.Array:
        """Return the message of a hand-written channel, with parameters from `hand_written`.

        Silence, a constant and a random function are the same network with other weights, so one
        compiled program serves all hand-written channels.
        """
        weights, noise_key, is_noise = spoken
        said = noise(jax.random.wrap_key_data(noise_key), obs, self.width)
        return self.scale * jnp.where(is_noise, said, self._network.apply(weights, obs))

    @property
    def _network(self) -> Any:
        return _Network(self.hidden_sizes, self.width)


class _Network(nn.Module):
    hidden_sizes: tuple[int, ...]
    width: int

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        features = Torso(1, tuple(self.hidden_sizes), "relu", LECUN_NORMAL)(obs)
        return jnp.tanh(nn.Dense(self.width, kernel_init=LECUN_NORMAL, name="out")(features))


def hand_written(
    key: jax.Array, weights: Any, place: jax.Array | int
) -> tuple[Any, jax.Array, jax.Array]:
    """Return what `Messenger.speak` needs for channel number `place` of `HAND_WRITTEN`.

    Args:
        key: for a constant, a random function and noise: each agent has its own.
        weights: example of the network's weights.
        place: which channel, may be traced.
    """
    own_key, noise_key = jax.random.split(key)
    silent = jax.tree.map(jnp.zeros_like, weights)
    out = silent["params"]["out"]
    said = jax.random.uniform(own_key, out["bias"].shape, minval=-0.999, maxval=0.999)
    constant = {"params": {**silent["params"], "out": {**out, "bias": jnp.arctanh(said)}}}
    leaves, structure = jax.tree.flatten(weights)
    keys = jax.random.split(own_key, len(leaves))
    random = [
        LECUN_NORMAL(each, leaf.shape) if leaf.ndim > 1 else jnp.zeros_like(leaf)
        for each, leaf in zip(keys, leaves, strict=True)
    ]
    each = silent, constant, jax.tree.unflatten(structure, random), silent
    chosen = jax.tree.map(lambda *leaves: jnp.stack(leaves)[place], *each)
    is_noise = jnp.asarray(place == HAND_WRITTEN.index("noise"))
    return chosen, jax.random.key_data(noise_key), is_noise


def noise(key: jax.Array, obs: jax.Array, width: int) -> jax.Array:
    """Return a uniform message [width], independent for every two observations.

    It is drawn with the bits of the observation, so equal observations have equal messages.
    """
    bits = jax.lax.bitcast_convert_type(obs.astype(jnp.float32), jnp.uint32)

    def scrambled(place, bit):
        return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, place), bit))

    number = jnp.bitwise_xor.reduce(jax.vmap(scrambled)(jnp.arange(len(bits)), bits))
    return jax.random.uniform(jax.random.fold_in(key, number), (width,), minval=-1.0)


class TalkParams(struct.PyTreeNode):
    """Parameters of an environment with a channel. Traced."""

    env: EnvParams
    """parameters of the environment"""
    channel: Any
    """parameters of the channel"""


class Talking(Parameterised):
    """Observations with a message appended; states, rewards and actions are unchanged.

    Example:
        >>> env, env_params = envs.make("CartPole-v1")
        >>> env = Talking(env, lambda meta_params, obs: jnp.tanh(obs[:2] @ meta_params), width=2)
        >>> env_params = TalkParams(env_params, jnp.eye(2))
    """

    def __init__(self, env: Environment, channel: Channel, width: int):
        """Wrap `env`.

        Args:
            env: environment with vector observations.
            channel: function that computes the messages.
            width: length of a message.

        Raises:
            ValueError: if observations are not vectors.
        """
        super().__init__(env)
        shape = tuple(env.observation_space(env.default_params).shape)
        if len(shape) != 1:
            seen = f"images of shape {shape}" if shape else "state numbers"
            raise ValueError(
                f"{env.name}: its observations are {seen}, but a message is appended to a vector"
            )
        self.channel, self.width = channel, width

    @property
    def default_params(self) -> TalkParams:
        """Default parameters of the wrapped environment, with a channel without parameters."""
        return TalkParams(self.env.default_params, None)

    def observation_space(self, params: TalkParams) -> spaces.Box:
        """Return the space of observations with the message appended."""
        (size,) = self.env.observation_space(params.env).shape
        return spaces.Box(-jnp.inf, jnp.inf, (size + self.width,), jnp.float32)

    def observe(self, obs: jax.Array, params: TalkParams) -> jax.Array:
        """Return the observation with its message."""
        message = self.channel(params.channel, obs)
        return jnp.concatenate([obs, message.astype(obs.dtype)])
