"""A learned drift: how far the policy may move on a batch, the part of PPO that its clip decides.

    loss = D - ratio * advantage,    D = relu(network(inputs) - offset) >= 0

After "Discovered Policy Optimisation" (Lu et al. 2022, LPO). The network has no biases and all its
inputs vanish at ratio 1. So whatever its parameters, D and its gradient are zero there and D is
never negative: the conditions of mirror learning (Grudzien et al. 2022) on a drift. The offset
keeps it flat only where the network is that small, so its slope may jump close to ratio 1.

With `temporal: true` (LPO-T, Jackson et al. 2024) the network also gets its inputs times the share
of training that is done, and times the logarithm of its length. These vanish at ratio 1 too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Gt

from metaevo.parts.part import Part, time_inputs
from purerl.fast.arithmetic import tanh
from purerl.types import Context, MetaParams, PyTree

LOG_RATIO_LIMIT = 20.0
"""Beyond it a policy loss is constant: exp and its square stay far from float32's largest."""
DISTILLATION_STEPS = 3000
INPUTS = 8
"""Of the network, without time."""


@dataclass(frozen=True)
class Drift(Part):
    """The network's size and where it starts."""

    slot: ClassVar[str] = "policy_loss"
    hidden_size: Annotated[int, Gt(0)] = 128
    """tanh units of the one hidden layer"""
    start: Literal["random", "clip"] = "random"
    """random weights, or weights fitted to the drift of PPO's clip"""
    clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """of the clip that start: clip is fitted to"""
    offset: Annotated[float, Gt(0)] = 1e-4
    """threshold on the network's output: keeps the drift flat around ratio 1"""
    temporal: bool = False
    """whether the network sees how much of training is done, and how long it is"""

    def init(self, key: jax.Array) -> PyTree:
        """Return random weights, or weights for the drift of PPO's clip."""
        if self.start == "clip" and self.temporal:
            meta_params = replace(self, temporal=False).init(key)
            unused = jnp.zeros((2 * INPUTS, self.hidden_size))
            return {**meta_params, "hidden": jnp.concatenate([meta_params["hidden"], unused])}
        hidden_key, output_key = jax.random.split(key)
        num_inputs = INPUTS * (1 + 2 * self.temporal)
        init_kernel = jax.nn.initializers.lecun_normal()
        meta_params = {
            "hidden": init_kernel(hidden_key, (num_inputs, self.hidden_size)),
            "output": init_kernel(output_key, (self.hidden_size, 1))[:, 0],
        }
        return meta_params if self.start == "random" else _distill(self, key, meta_params)

    def apply(
        self, meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
    ) -> jax.Array:
        """Return the loss of one action."""
        log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
        inputs = _inputs(log_ratio, advantage)
        if self.temporal:
            inputs = jnp.concatenate([inputs, *jnp.outer(time_inputs(context), inputs)])
        drift = jax.nn.relu(_network(meta_params, inputs) - self.offset)
        return drift - jnp.exp(log_ratio) * advantage


def clip_drift(
    log_ratio: jax.Array, advantage: jax.Array, clip_epsilon: jax.Array | float
) -> jax.Array:
    """Return the drift of PPO's clip: `ratio * advantage` minus the clipped surrogate.

    Source: Lu et al. 2022; (ratio - clip(ratio)) * advantage where that is positive.
    """
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1.0 - clip_epsilon, 1.0 + clip_epsilon)
    return jax.nn.relu((ratio - clipped) * advantage)


def _inputs(log_ratio: jax.Array, advantage: jax.Array) -> jax.Array:
    """The network's inputs without time [INPUTS]; all are zero at ratio 1."""
    # expm1: with exp(x) - 1, the inputs near ratio 1 would be rounding errors.
    change = -jnp.expm1(log_ratio)
    inputs = jnp.stack([log_ratio, jnp.square(log_ratio), change, jnp.square(change)])
    return jnp.concatenate([inputs, inputs * advantage])


def _network(meta_params: dict[str, jax.Array], inputs: jax.Array) -> jax.Array:
    """Map the inputs to a scalar."""
    return tanh(inputs @ meta_params["hidden"]) @ meta_params["output"]


def _distill(config: Drift, key: jax.Array, meta_params: MetaParams) -> PyTree:
    """Fit the drift and its slope to PPO's clip, at typical ratios and advantages.

    Where the clip's drift is zero, it is enough that the network does not exceed its offset; where
    it is positive, the network is fitted below its relu, which would else stop learning.
    """

    def network(meta_params, log_ratio, advantage):
        return _network(meta_params, _inputs(log_ratio, advantage)) - config.offset

    def both(function: Callable, *arguments: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.vmap(jax.value_and_grad(function, argnums=0))(*arguments)

    def distance(meta_params, key):
        size_key, ratio_key, advantage_key = jax.random.split(key, 3)
        size = jax.random.uniform(size_key, (512,), minval=0.05, maxval=0.6)
        log_ratio = size * jax.random.normal(ratio_key, (512,))
        advantage = 1.5 * jax.random.normal(advantage_key, (512,))
        wanted, wanted_slope = both(
            lambda x, a: clip_drift(x, a, config.clip_epsilon), log_ratio, advantage
        )
        value, slope = both(lambda x, a: network(meta_params, x, a), log_ratio, advantage)
        counts = (wanted > 0) | (value > 0)
        errors = jnp.square(value - wanted) + 0.1 * jnp.square(slope - wanted_slope)
        return jnp.mean(jnp.where(counts, errors, 0.0))

    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, DISTILLATION_STEPS))

    def step(carry, key):
        meta_params, opt_state = carry
        updates, opt_state = optimizer.update(jax.grad(distance)(meta_params, key), opt_state)
        return (optax.apply_updates(meta_params, updates), opt_state), None

    keys = jax.random.split(key, DISTILLATION_STEPS)
    (meta_params, _), _ = jax.lax.scan(step, (meta_params, optimizer.init(meta_params)), keys)
    return meta_params
