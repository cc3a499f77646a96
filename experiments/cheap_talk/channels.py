"""Channels, which append messages to observations; see `experiments.cheap_talk.talking`.

`Messenger.message` is the channel of a network. Silence, a constant and a random function are the
same network with other weights, so one compiled program serves them all. `speak` also supports
noise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from purerl.parts.networks import LECUN_NORMAL, Torso

Channel = Callable[[Any, jax.Array], jax.Array]
"""`(meta_params, observation) -> message` [width] in [-1, 1]."""

Weights = Any
"""Weights of a network of messages."""


class Messenger(nn.Module):
    """A multilayer perceptron from an observation to a message."""

    hidden_sizes: Sequence[int]
    """units of each hidden layer, relu"""
    width: int
    """numbers of a message"""

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Map [..., obs_size] to [..., width], within [-1, 1]."""
        features = Torso(1, tuple(self.hidden_sizes), "relu", LECUN_NORMAL)(obs)
        return jnp.tanh(nn.Dense(self.width, kernel_init=LECUN_NORMAL, name="out")(features))

    def message(self, weights: Weights, obs: jax.Array) -> Any:
        """Apply the network; as a `Channel`, its meta-parameters are the weights."""
        return self.apply(weights, obs)


class Speaker(struct.PyTreeNode):
    """The parameters of `speak`."""

    weights: Weights
    key: jax.Array
    """[2] uint32, key of the noise"""
    is_noise: jax.Array
    """[] bool, whether messages are noise instead of the network's outputs"""


def speak(messenger: Messenger) -> Channel:
    """Return the channel that takes a `Speaker` as meta-parameters."""

    def channel(speaker: Speaker, obs: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(speaker.key)
        return jnp.where(
            speaker.is_noise,
            noise(key, obs, messenger.width),
            messenger.message(speaker.weights, obs),
        )

    return channel


def noise(key: jax.Array, obs: jax.Array, width: int) -> jax.Array:
    """Return a uniform message [width], independent for every two observations.

    It is drawn with the bits of the observation, so equal observations have equal messages.
    """
    bits = jax.lax.bitcast_convert_type(obs.astype(jnp.float32), jnp.uint32)

    def scrambled(place, bit):
        return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, place), bit))

    number = jnp.bitwise_xor.reduce(jax.vmap(scrambled)(jnp.arange(len(bits)), bits))
    return jax.random.uniform(jax.random.fold_in(key, number), (width,), minval=-1.0)


def silence(key: jax.Array, weights: Weights) -> Weights:
    """Return the weights of a network with the constant output zero."""
    return jax.tree.map(jnp.zeros_like, weights)


def constant(key: jax.Array, weights: Weights) -> Weights:
    """Return the weights of a network with a constant output, drawn uniformly from [-1, 1]."""
    silent = silence(key, weights)["params"]
    bias = silent["out"]["bias"]
    said = jax.random.uniform(key, bias.shape, minval=-0.999, maxval=0.999)
    return {"params": {**silent, "out": {**silent["out"], "bias": jnp.arctanh(said)}}}


def random(key: jax.Array, weights: Weights) -> Weights:
    """Return new random weights, drawn as at the start of a search."""
    leaves, structure = jax.tree.flatten(weights)
    drawn = [
        LECUN_NORMAL(each, leaf.shape) if leaf.ndim > 1 else jnp.zeros_like(leaf)
        for each, leaf in zip(jax.random.split(key, len(leaves)), leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, drawn)


HAND_WRITTEN: dict[str, Callable[[jax.Array, Weights], Weights]] = {
    "silence": silence,
    "constant": constant,
    "random": random,
    "noise": silence,
}
"""The weights of hand-written channels, from a key and weights of the same shapes."""


def speaker(name: str, key: jax.Array, weights: Weights) -> Speaker:
    """Return a hand-written channel for one agent, or the given one under any other name.

    Args:
        name: element of `HAND_WRITTEN`, or another name for the given weights.
        key: for a constant, a random function and noise.
        weights: weights of the network, or an example.
    """
    own_key, noise_key = jax.random.split(key)
    if name in HAND_WRITTEN:
        weights = HAND_WRITTEN[name](own_key, weights)
    is_noise = jnp.array(name == "noise")
    return Speaker(weights, jax.random.key_data(noise_key), is_noise)
