"""Six numbers between Adam and schedule-free Adam: how an optimizer averages its parameters.

Schedule-free Adam (Defazio et al. 2024) takes steps z without momentum, averages them to x, and
acts with parameters between the two:

    z -= learning rate * ((1 - momentum) * gradient + momentum * mean_9)
    x += c (z - x),    c = recency / (t + recency - 1)    for step t
    parameters = (1 - share) z + share x

The weight of a step in x grows with t to the power of recency - 1 (Shamir & Zhang 2013): with 1, x
is the mean of all steps; with 3, mostly that of the last third. The gradient and mean_9, its mean
with decay 0.9, are divided by the root of the second moment. Each name is a pair of evolved
numbers, of the value network and the policy; recency is exp of its number, and share the logistic
function of its own. With a momentum of 1 and a share of 0 the optimizer is Adam. There is no number
for the size of steps, because a learning rate is tuned for every task.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from metaevo.components import signals
from metaevo.components.component import Component
from metaevo.components.signals import Seen
from purerl.parts import parameters
from purerl.types import PyTree

SLOT = "make_optimizer"

START = {"momentum": 0.0, "recency": 0.0, "share": 2.1972246}  # log(0.9 / 0.1)
"""The numbers of schedule-free Adam."""


@dataclass(frozen=True)
class Config:
    """There are no settings."""


class State(NamedTuple):
    """State of the average."""

    steps: jax.Array
    """[] int32, taken"""
    distance: PyTree
    """x - z, like the parameters"""


def make(config: Config) -> Component:
    """Return the component: `init(key)` and the slot function of `purerl.types.MakeOptimizer`."""
    del config

    def make_optimizer(meta_params, context):
        def direction(seen, memory):
            return _direction(meta_params, seen), memory

        steps = signals.optimizer(direction, context, means=("mean_9",))
        return optax.chain(steps, averaged(meta_params))

    return Component(init, make_optimizer)


def init(key: jax.Array) -> dict[str, jax.Array]:
    """Return the numbers of schedule-free Adam, each [2]: of the value network, of the policy."""
    del key
    return {name: jnp.full(2, value) for name, value in START.items()}


def averaged(meta_params: dict[str, jax.Array]) -> optax.GradientTransformationExtraArgs:
    """Return a transformation of steps of z into steps of the parameters."""

    def init(params):
        return State(jnp.int32(0), jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params, **told):
        del told
        steps = optax.safe_increment(state.steps)

        def kept(is_policy, step, distance):
            """The next x - z: z takes its step, then x moves towards it."""
            recency = jnp.exp(meta_params["recency"][int(is_policy)])
            return (1.0 - recency / (steps + recency - 1.0)) * (distance - step)

        def moved(is_policy, step, before, after):
            share = jax.nn.sigmoid(meta_params["share"][int(is_policy)])
            return step + share * (after - before)

        policy, before = parameters.of_policy(params), state.distance
        after = jax.tree.map(kept, policy, updates, before)
        return jax.tree.map(moved, policy, updates, before, after), State(steps, after)

    return optax.GradientTransformationExtraArgs(init, update)


def _direction(meta_params: dict[str, jax.Array], seen: Seen) -> jax.Array:
    """Return the step of z against the gradient, in learning rates, [P]."""
    value, policy = meta_params["momentum"]
    momentum = jnp.where(seen.policy > 0, policy, value)
    gradient, mean = seen.signals
    return (1.0 - momentum) * gradient + momentum * mean
