"""Inputs of a learned optimizer for every parameter, and the optax optimizer that applies it.

    step = learning rate * direction(seen)

The signals are the gradient and its running means, divided by the root of its second moment, as in
Adam (Kingma & Ba 2015), where the step is the mean with decay 0.9. Gradients are clipped, and the
learning rate is annealed, like Adam's.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from purerl.parts import parameters
from purerl.parts.optimizers import scale_by_annealed_learning_rate

MEANS = {"mean_5": 0.5, "mean_9": 0.9, "mean_99": 0.99, "mean_999": 0.999}
"""Running means of the gradient, with their decays."""
SECOND_DECAY = 0.999
"""Of the running mean of its square."""
SIGNALS = "gradient", *MEANS
FEATURES = *SIGNALS, "size", "value", "policy"
TIMES = "progress", "length"


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


def length(context: Any) -> jax.Array:
    """Return the length of training as learned parts see it, []; see `Seen`."""
    return jnp.log(jnp.float32(context.num_updates)) / 10.0


Direction = Callable[[Seen, jax.Array], tuple[jax.Array, jax.Array]]
"""`(seen, memory [memory_size, P]) -> (direction [P], memory)`; the first in learning rates."""


def optimizer(
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

    def update(updates, state, params, **told):
        gradient, unravel = ravel_pytree(updates)
        policy = parameters.for_each(parameters.of_policy(params), params)
        values, _ = ravel_pytree(params)
        steps, state = inner.update(gradient, state, values, policy=policy, **told)
        return unravel(steps), state

    return optax.GradientTransformationExtraArgs(init, update)


def _along(
    direction: Direction, context: Any, names: Sequence[str], memory_size: int
) -> optax.GradientTransformationExtraArgs:
    """Return a transformation of clipped gradients [P] into directions [P]; P is always last."""
    all_decays = np.array([MEANS[name] for name in names], np.float32)

    def init(params):
        like = jnp.zeros_like(params)
        means = jnp.zeros((len(names), params.size), params.dtype)
        memory = jnp.zeros((memory_size, params.size), params.dtype)
        return State(jnp.int32(0), means, like, memory)

    def update(gradient, state, values, *, progress, policy, **told):
        del told
        steps = optax.safe_increment(state.steps)
        decays = all_decays[:, None]
        means = (1 - decays) * gradient[None] + decays * state.means
        second = (1 - SECOND_DECAY) * gradient**2 + SECOND_DECAY * state.second
        corrected = means / (1 - decays**steps)
        root = jnp.sqrt(second / (1 - SECOND_DECAY**steps))
        scale = root + context.hyperparams.adam_epsilon
        seen = Seen(
            ("gradient", *names),
            jnp.concatenate([gradient[None], corrected]) / scale[None],
            jnp.log(scale / _mean_of_network(scale, policy)),
            values,
            policy,
            jnp.float32(progress),
            length(context),
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
