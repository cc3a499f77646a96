"""The target for an optimizer: the step of a single parameter.

The step is in units of the learning rate, before annealing, as a function of the parameter's
signals (`metaevo.components.signals`).
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.components import signals
from metaevo.components.component import Component
from metaevo.components.parts import Part
from metaevo.components.signals import FEATURES, SIGNALS, TIMES, Seen
from metaevo.discovery.records import Target, ValueOf, written_down
from purerl.types import PyTree

OF_ARRAY = 32
"""Recorded parameters of each array; equal numbers give small arrays the weight of large ones."""


def step_of(part: Part) -> ValueOf:
    """Return the step of one parameter as a function of FEATURES."""
    direction = part.component.direction
    assert direction is not None

    def step(meta_params, scalars, context):
        found, (size, value, policy) = jnp.split(scalars[:, None], [len(SIGNALS)])
        length = jnp.log(jnp.float32(context.num_updates)) / 10.0
        seen = Seen(SIGNALS, found, size, value, policy, context.progress, length)
        return direction(meta_params, seen)[0]

    return step


def listened(component: Component, seen: list[np.ndarray]) -> Component:
    """Return the same optimizer, which also records its inputs for some parameters."""
    direction = component.direction
    assert direction is not None

    def make_optimizer(meta_params, context):
        def optimizer(at: Sequence[int]) -> optax.GradientTransformationExtraArgs:
            def of_all(all_seen: Seen, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
                scalars = jnp.stack([all_seen.by_name[name] for name in FEATURES], axis=1)
                one = written_down(scalars[np.asarray(at)], seen)
                return one * direction(meta_params, all_seen), memory

            return signals.optimizer(of_all, context)

        def update(updates, state, params, **told):
            return optimizer(_some(params)).update(updates, state, params, **told)

        return optax.GradientTransformationExtraArgs(optimizer(()).init, update)

    return component._replace(apply=make_optimizer)


def _some(params: PyTree) -> list[int]:
    """Return at most OF_ARRAY places in every array of parameters, which are one vector."""
    rng, chosen, start = np.random.default_rng(0), [], 0
    for leaf in jax.tree.leaves(params):
        chosen += (start + rng.permutation(leaf.size)[:OF_ARRAY]).tolist()
        start += leaf.size
    return chosen


def _inputs_of(scalars: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(FEATURES, scalars.T, strict=True))


def _scalars_of(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack([inputs[name] for name in FEATURES], axis=1)


OPTIMIZER = Target(
    "the step of a parameter, in learning rates",
    "value",
    listened,
    step_of,
    _inputs_of,
    _scalars_of,
    TIMES,
)
