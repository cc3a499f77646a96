"""Networks of one's own: `metaevo train --train.network examples/networks.py:MLP`."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from purerl.parts.networks import orthogonal


class MLP(nn.Module):
    """Two layers, normalised before their activation."""

    actions: Any

    @nn.compact
    def __call__(self, obs):
        x = obs
        for size in (64, 64):
            x = nn.relu(nn.LayerNorm()(nn.Dense(size)(x)))
        return nn.Dense(self.actions.n)(x), nn.Dense(1)(x)


class Block(nn.Module):
    """A residual block."""

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(x.shape[-1], (3, 3))(nn.relu(x))
        return x + nn.Conv(x.shape[-1], (3, 3))(nn.relu(y))


class ResNet(nn.Module):
    """A small residual network for images."""

    actions: Any

    @nn.compact
    def __call__(self, obs):
        x = nn.relu(Block()(nn.Conv(16, (3, 3), strides=2)(obs)))
        x = nn.relu(nn.Dense(128)(x.reshape(len(x), -1)))
        return nn.Dense(self.actions.n)(x), nn.Dense(1)(x)


class TwoHeads(nn.Module):
    """A shared torso with two heads, for the dictionaries of examples/two_doors.py."""

    actions: Any

    @nn.compact
    def __call__(self, obs):
        picture = nn.relu(nn.Conv(16, (3, 3))(obs["picture"]))
        picture = nn.Dense(64)(picture.reshape(len(picture), -1))
        x = nn.relu(picture * nn.Dense(64)(obs["colour"]))
        policy, value = (nn.relu(nn.Dense(64)(x)) for _ in range(2))
        return nn.Dense(self.actions.n)(policy), nn.Dense(1)(value)


class Memory(nn.Module):
    """A recurrent network."""

    actions: Any
    size: int = 32

    def initial_memory(self):
        """Return the memory of one agent at the start of an episode."""
        return jnp.zeros(self.size)

    @nn.compact
    def __call__(self, obs, memory):
        cell = nn.GRUCell(self.size, recurrent_kernel_init=orthogonal())
        memory, x = cell(memory, nn.relu(nn.Dense(self.size)(obs)))
        return nn.Dense(self.actions.n)(x), nn.Dense(1)(x), memory
