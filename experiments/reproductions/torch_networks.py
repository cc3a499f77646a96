"""PyTorch, and networks in it that are built and initialised as ours; loaded only when used."""

import importlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def load(seed: int) -> Any:
    """Return PyTorch, seeded and on one thread, as every JAX device on a CPU."""
    torch = importlib.import_module("torch")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return torch


def perceptron(
    torch: Any, sizes: Sequence[int], outputs: int, *, activation: str, scale: float
) -> Any:
    """Return a multilayer perceptron with orthogonal kernels and zero biases.

    Args:
        torch: the module.
        sizes: inputs, then units of the hidden layers.
        outputs: of the last layer.
        activation: tanh or relu.
        scale: of the last kernel.
    """
    make_activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]
    layers = []
    for before, after in pairwise(sizes):
        layers += [_linear(torch, before, after, 2.0**0.5), make_activation()]
    return torch.nn.Sequential(*layers, _linear(torch, sizes[-1], outputs, scale))


def _linear(torch: Any, inputs: int, outputs: int, scale: float) -> Any:
    layer = torch.nn.Linear(inputs, outputs)
    torch.nn.init.orthogonal_(layer.weight, scale)
    torch.nn.init.zeros_(layer.bias)
    return layer
