"""A small learned optimizer: one tiny network, the same for every parameter of the agent.

    step = learning rate * exp(z) * (a . signals + y),    y, z = network(features)

The signals are the gradient and its running means, divided by the root of its second moment, as in
Adam (Kingma & Ba 2015). The features add how large the gradient usually is, the parameter's value,
and whether it is the policy's. With a = 1 for the mean with decay 0.9, and y = z = 0, the step is
Adam's. Learned optimizers with such features: Metz et al. 2020, "Tasks, stability, architecture,
and compute".

`optimizer_along` makes an optax optimizer of any function of these inputs, such as a formula.
Gradients are clipped, and the learning rate is annealed, like Adam's.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Gt
from jax.flatten_util import ravel_pytree

from metaevo.parts import parameters
from metaevo.parts.part import TIMES, Part, length
from purerl.fast.arithmetic import tanh
from purerl.parts.optimizers import scale_by_annealed_learning_rate
from purerl.types import Context, MetaParams, PyTree

MEANS = {"mean_5": 0.5, "mean_9": 0.9, "mean_99": 0.99, "mean_999": 0.999}
"""Running means of the gradient, with their decays."""
SECOND_DECAY = 0.999
"""Of the running mean of its square."""
SIGNALS = "gradient", *MEANS
FEATURES = *SIGNALS, "size", "value", "policy"


class Seen(NamedTuple):
    """Inputs for P parameters."""

    names: tuple[str, ...]
    """of the signals: all SIGNALS, or fewer where the others are not looked at"""
    signals: jax.Array
    """[signals, P]"""
    size: jax.Array
    """[P] log of the typical gradient size, relative to the mean of the same network"""
    value: jax.Array
    """[P] of the parameter"""
    policy: jax.Array
    """[P] 1 for parameters that the policy needs, 0 for the others"""
    progress: jax.Array
    """[] share of training that is done"""
    length: jax.Array
    """[] logarithm of the number of updates, divided by 10"""

    @property
    def by_name(self) -> dict[str, jax.Array]:
        """Return all inputs, by the names of FEATURES and TIMES."""
        own = {name: getattr(self, name) for name in (*FEATURES, *TIMES) if name not in SIGNALS}
        return dict(zip(self.names, self.signals, strict=True)) | own


class State(NamedTuple):
    """Moving averages for P parameters."""

    steps: jax.Array
    """[] int32, taken"""
    means: jax.Array
    """[means, P]"""
    second: jax.Array
    """[P]"""
    memory: jax.Array
    """[memory_size, P]"""


Direction = Callable[[Seen, jax.Array], tuple[jax.Array, jax.Array]]
"""`(seen, memory [memory_size, P]) -> (direction [P], memory)`; the first in learning rates."""


def optimizer_along(
    direction: Direction,
    context: Any,
    *,
    means: Sequence[str] = tuple(MEANS),
    memory_size: int = 0,
) -> optax.GradientTransformationExtraArgs:
    """Return an optimizer of the slot `make_optimizer`.

    Args:
        direction: returns the direction to step against.
        context: of the slot.
        means: the required means of MEANS; others are neither computed nor stored.
        memory_size: numbers that the direction remembers of every parameter.
    """
    inner = optax.chain(
        optax.clip_by_global_norm(context.hyperparams.max_grad_norm),
        _along(direction, context, means, memory_size),
        scale_by_annealed_learning_rate(context),
    )

    def init(params):
        return inner.init(ravel_pytree(params)[0])

    def update(updates, state, params, *, context, **others):
        gradient, unravel = ravel_pytree(updates)
        policy = parameters.for_each(parameters.of_policy(params), params)
        values, _ = ravel_pytree(params)
        steps, state = inner.update(gradient, state, values, policy=policy, context=context)
        return unravel(steps), state

    return optax.GradientTransformationExtraArgs(init, update)


def _along(
    direction: Direction, context: Any, names: Sequence[str], memory_size: int
) -> optax.GradientTransformationExtraArgs:
    """Return a transformation of clipped gradients [P] into directions [P]; P is always last."""
    adam_epsilon, training_length = context.hyperparams.adam_epsilon, length(context)
    all_decays = np.array([MEANS[name] for name in names], np.float32)

    def init(params):
        like = jnp.zeros_like(params)
        means = jnp.zeros((len(names), params.size), params.dtype)
        memory = jnp.zeros((memory_size, params.size), params.dtype)
        return State(jnp.int32(0), means, like, memory)

    def update(gradient, state, values, *, context, policy, **others):
        del others
        steps = optax.safe_increment(state.steps)
        decays = all_decays[:, None]
        means = (1 - decays) * gradient[None] + decays * state.means
        second = (1 - SECOND_DECAY) * gradient**2 + SECOND_DECAY * state.second
        corrected = means / (1 - decays**steps)
        root = jnp.sqrt(second / (1 - SECOND_DECAY**steps))
        scale = root + adam_epsilon
        seen = Seen(
            ("gradient", *names),
            jnp.concatenate([gradient[None], corrected]) / scale[None],
            jnp.log(scale / _mean_of_network(scale, policy)),
            values,
            policy,
            jnp.float32(context.progress),
            training_length,
        )
        found, memory = direction(seen, state.memory)
        return found, State(steps, means, second, memory)

    return optax.GradientTransformationExtraArgs(init, update)


def _mean_of_network(numbers: jax.Array, policy: jax.Array) -> jax.Array:
    """Return [P]: for each parameter the mean of `numbers` [P] over the network that it is part of.

    The scale of the value network's gradients is the scale of returns, which differs between tasks.
    """

    def mean(of: jax.Array) -> jax.Array:
        return jnp.sum(numbers * of) / jnp.maximum(jnp.sum(of), 1)

    return jnp.where(policy > 0, mean(policy), mean(1 - policy))


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
        direction = functools.partial(self.direction, meta_params)
        return optimizer_along(direction, context, memory_size=self.memory_size)

    def direction(
        self, meta_params: MetaParams, seen: Seen, memory: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Return directions [P] and the next memory [memory_size, P] of P parameters."""
        others = jnp.stack([seen.size, seen.value, seen.policy])
        features = jnp.concatenate([seen.signals, others, memory])
        bias = meta_params["hidden_bias"]
        if self.temporal:
            bias = bias + meta_params["time"] @ jnp.stack([seen.progress, seen.length])
        hidden = tanh(meta_params["hidden"] @ features + bias[:, None])
        outputs = meta_params["output"] @ hidden + meta_params["output_bias"][:, None]
        change, exponent, *rest = outputs
        if self.memory_size:
            gates, news = jnp.split(jnp.stack(rest), 2)
            gates = jax.nn.sigmoid(gates)
            memory = (1.0 - gates) * memory + gates * tanh(news)

        mix = meta_params["mix"]  # the sum is spelt out: so XLA makes it part of what follows
        mixed = sum(mix[index] * seen.signals[index] for index in range(len(SIGNALS)))
        direction = jnp.clip(mixed + change, -LARGEST_STEP, LARGEST_STEP)
        exponent = LARGEST_EXPONENT * tanh(exponent / LARGEST_EXPONENT)
        return direction * jnp.exp(exponent), memory
