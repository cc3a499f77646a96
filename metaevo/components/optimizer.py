"""A small learned optimizer: one tiny network, the same for every parameter of the agent.

    step = learning rate * exp(z) * (a . signals + y),    y, z = network(features)

The signals and features come from `metaevo.components.signals`: gradients and their running
means, divided by the root of the second moment; how large the gradient usually is, the parameter's
value, and whether it is the policy's. With a = 1 for the mean with decay 0.9, and y = z = 0, the
step is Adam's. Learned optimizers with such features: Metz et al. 2020, "Tasks, stability,
architecture, and compute".
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from metaevo.components import signals
from metaevo.components.component import Component
from metaevo.components.signals import FEATURES, SIGNALS, TIMES, Seen
from purerl.fast.activations import tanh

SLOT = "make_optimizer"

LARGEST_STEP = 100.0
"""In learning rates. Adam's are at most (1 - 0.9) / sqrt(1 - 0.999) = 3.2 in the long run."""
LARGEST_EXPONENT = 3.0


@dataclass(frozen=True)
class Config:
    """The network's size, its inputs, and its initial weights."""

    hidden_size: Annotated[int, Gt(0)] = 8
    """tanh units of the one hidden layer"""
    memory_size: Annotated[int, Ge(0)] = 0
    """gated numbers that it remembers of every parameter"""
    temporal: bool = True
    """also sees progress and the logarithm of the number of updates"""
    start: Literal["adam", "random"] = "adam"
    """exactly Adam, or Adam's mix of signals and a network of random weights"""


def make(config: Config) -> Component:
    """Return the component: `init(key)` and the slot function of `purerl.types.MakeOptimizer`."""

    def init(key):
        return _init(config, key)

    def make_optimizer(meta_params, context):
        def direction(seen, memory):
            return _direction(config, meta_params, seen, memory)

        return signals.optimizer(direction, context, memory_size=config.memory_size)

    def direction(meta_params, seen):
        return _direction(config, meta_params, seen, jnp.zeros((0, seen.value.size)))[0]

    return Component(init, make_optimizer, None if config.memory_size else direction)


def _init(config: Config, key: jax.Array) -> dict[str, jax.Array]:
    inputs = len(FEATURES) + config.memory_size
    outputs = 2 + 2 * config.memory_size
    hidden_key, time_key, output_key = jax.random.split(key, 3)
    hidden = config.hidden_size
    meta_params = {
        "mix": jnp.asarray([signal == "mean_9" for signal in SIGNALS], jnp.float32),
        "hidden": jax.random.normal(hidden_key, (hidden, inputs)) / inputs**0.5,
        "hidden_bias": jnp.zeros(hidden),
        "output": jax.random.normal(output_key, (outputs, hidden)) / hidden**0.5,
        "output_bias": jnp.zeros(outputs),
    }
    if config.temporal:
        meta_params["time"] = jax.random.normal(time_key, (hidden, len(TIMES))) / inputs**0.5
    if config.start == "adam":
        meta_params["output"] = jnp.zeros_like(meta_params["output"])
    return meta_params


def _direction(
    config: Config, meta_params: dict[str, jax.Array], seen: Seen, memory: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return directions [P] and the next memory [memory_size, P] of P parameters."""
    others = jnp.stack([seen.size, seen.value, seen.policy])
    features = jnp.concatenate([seen.signals, others, memory])
    bias = meta_params["hidden_bias"]
    if config.temporal:
        bias = bias + meta_params["time"] @ jnp.stack([seen.progress, seen.length])
    hidden = tanh(meta_params["hidden"] @ features + bias[:, None])
    outputs = meta_params["output"] @ hidden + meta_params["output_bias"][:, None]
    change, exponent, *rest = outputs
    if config.memory_size:
        gates, news = jnp.split(jnp.stack(rest), 2)
        gates = jax.nn.sigmoid(gates)
        memory = (1.0 - gates) * memory + gates * tanh(news)

    mix = meta_params["mix"]  # the sum is spelt out: so XLA makes it part of what follows
    mixed = sum(mix[index] * seen.signals[index] for index in range(len(SIGNALS)))
    direction = jnp.clip(mixed + change, -LARGEST_STEP, LARGEST_STEP)
    exponent = LARGEST_EXPONENT * tanh(exponent / LARGEST_EXPONENT)
    return direction * jnp.exp(exponent), memory
