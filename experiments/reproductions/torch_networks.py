"""PyTorch networks with purerl's architecture and initialisation; loaded only when used."""

import importlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv


class Record(NamedTuple):
    """A learning curve."""

    frames: np.ndarray
    """[points] environment steps"""
    seconds: np.ndarray
    """[points] seconds since the start"""
    returns: np.ndarray
    """[points] since the last point: the mean return of finished episodes (PPO, NaN if there are
    none), or the reward per step (DQN)"""


def load(seed: int) -> Any:
    """Return PyTorch, seeded and on one thread, as every JAX device on a CPU."""
    torch = importlib.import_module("torch")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return torch


def sizes_of(vector: VectorEnv) -> tuple[int, int]:
    """Return the size of an environment's flat observations, and its number of actions."""
    num_actions = vector.single_action_space.n  # type: ignore[attr-defined]
    return int(np.prod(vector.single_observation_space.shape or ())), int(num_actions)


def perceptron(
    torch: Any, sizes: Sequence[int], outputs: int, *, activation: str, scale: float | None
) -> Any:
    """Return a multilayer perceptron with zero biases.

    Args:
        torch: the module `torch`.
        sizes: number of inputs, then units of the hidden layers.
        outputs: number of outputs.
        activation: tanh or relu.
        scale: scale of the last kernel, with orthogonal kernels (PPO); None for LeCun's normal
            kernels (DQN).
    """
    make_activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]
    layers = []
    for before, after in pairwise(sizes):
        hidden_scale = None if scale is None else 2.0**0.5
        layers += [_linear(torch, before, after, hidden_scale), make_activation()]
    return torch.nn.Sequential(*layers, _linear(torch, sizes[-1], outputs, scale))


def _linear(torch: Any, inputs: int, outputs: int, scale: float | None) -> Any:
    layer = torch.nn.Linear(inputs, outputs)
    if scale is None:
        std = inputs**-0.5 / 0.87962566  # cut at two of these, it is inputs^-0.5, as in JAX
        torch.nn.init.trunc_normal_(layer.weight, std=std, a=-2.0 * std, b=2.0 * std)
    else:
        torch.nn.init.orthogonal_(layer.weight, scale)
    torch.nn.init.zeros_(layer.bias)
    return layer
