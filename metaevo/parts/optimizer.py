"""A small learned optimizer: one tiny network, the same for every parameter of the agent.

    step = learning rate * exp(z) * (a . signals + y),    y, z = network(features)

The signals and features come from `metaevo.parts.signals`: gradients and their running
means, divided by the root of the second moment; how large the gradient usually is, the parameter's
value, and whether it is the policy's. With a = 1 for the mean with decay 0.9, and y = z = 0, the
step is Adam's. Learned optimizers with such features: Metz et al. 2020, "Tasks, stability,
architecture, and compute".
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from metaevo.parts import signals
from metaevo.parts.part import Part
from metaevo.parts.signals import FEATURES, SIGNALS, TIMES, Seen
from purerl.fast.activations import tanh
from purerl.types import Context, MetaParams, PyTree

LARGEST_STEP = 100.0
"""In learning rates. Adam's are at most (1 - 0.9) / sqrt(1 - 0.999) = 3.2 in the long run."""
LARGEST_EXPONENT = 3.0


@dataclass(frozen=True)
class LearnedOptimizer(Part):
    """The network's size, its inputs, and its initial weights."""

    slot: ClassVar[str] = "make_optimizer"
    hidden_size: Annotated[int, Gt(0)] = 8
    """tanh units of the one hidden layer"""
    memory_size: Annotated[int, Ge(0)] = 0
    """gated numbers that it remembers of every parameter"""
    temporal: bool = True
    """also sees progress and the logarithm of the number of updates"""
    start: Literal["adam", "random"] = "adam"
    """exactly Adam, or Adam's mix of signals and a network of random weights"""

    def init(self, key: jax.Array) -> PyTree:
        """Return weights for Adam, or Adam's mix of signals and random weights."""
        inputs = len(FEATURES) + self.memory_size
        outputs = 2 + 2 * self.memory_size
        hidden_key, time_key, output_key = jax.random.split(key, 3)
        hidden = self.hidden_size
        meta_params = {
            "mix": jnp.asarray([signal == "mean_9" for signal in SIGNALS], jnp.float32),
            "hidden": jax.random.normal(hidden_key, (hidden, inputs)) / inputs**0.5,
            "hidden_bias": jnp.zeros(hidden),
            "output": jax.random.normal(output_key, (outputs, hidden)) / hidden**0.5,
            "output_bias": jnp.zeros(outputs),
        }
        if self.temporal:
            meta_params["time"] = jax.random.normal(time_key, (hidden, len(TIMES))) / inputs**0.5
        if self.start == "adam":
            meta_params["output"] = jnp.zeros_like(meta_params["output"])
        return meta_params

    def apply(
        self, meta_params: MetaParams, context: Context
    ) -> optax.GradientTransformationExtraArgs:
        """Return the optimizer."""

        def direction(seen, memory):
            return _direction(self, meta_params, seen, memory)

        return signals.optimizer(direction, context, memory_size=self.memory_size)

    def direction(self, meta_params: MetaParams, seen: Seen) -> jax.Array:
        """Return the direction [P] of an optimizer without memory; distillation fits it."""
        return _direction(self, meta_params, seen, jnp.zeros((0, seen.value.size)))[0]


def _direction(
    config: LearnedOptimizer, meta_params: dict[str, jax.Array], seen: Seen, memory: jax.Array
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
