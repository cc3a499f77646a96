"""The quantities that formulas are fitted to, by slot.

Of a loss it is the slope, as learners use only the slope: two losses with values that agree to a
percent may push predictions near zero error in opposite directions. A policy loss contains
ratio * advantage; the search is for its drift.

Of an optimizer it is the step of a single parameter, in units of the learning rate and before
annealing, as a function of the parameter's signals (`metaevo.parts.signals`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.parts import signals
from metaevo.parts.part import HandWritten, Part
from metaevo.parts.signals import FEATURES, SIGNALS, Seen
from purerl.types import Context, MetaParams, PyTree

OF_ARRAY = 32
"""Recorded parameters of each array; equal numbers give small arrays the weight of large ones."""

Inputs = Mapping[str, Any]
"""Inputs of formulas by name: numbers, or arrays [samples]."""


class Target(NamedTuple):
    """The quantity that formulas for a slot are fitted to."""

    what: str
    """description"""
    gives: Literal["value", "slope"]
    """whether a formula is the loss or its slope, see `metaevo.parts.formula`"""
    recorded: Callable[[Any, list[np.ndarray]], Part]
    """the same part, which appends the scalars [..., k] that it is given to a list"""
    inputs_of: Callable[[np.ndarray], dict[str, np.ndarray]]
    """from scalars [samples, k] to the inputs of formulas except progress, [samples] each"""
    value: Callable[[Any, MetaParams, Context, Inputs], jax.Array]
    """the part's output for the inputs of one sample"""
    known: str = ""
    """the fixed end of every formula; the search finds the rest"""


def _write_down(scalars: jax.Array, seen: list[np.ndarray]) -> jax.Array:
    """Append scalars [..., k] to a list, whenever a program comes here; return 1.

    It must be a factor of the program's result, or XLA removes it.
    """

    def append(given):
        seen.append(np.array(given))
        return np.ones(np.shape(given)[: np.ndim(given) - scalars.ndim], np.float32)

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    given = jax.lax.stop_gradient(scalars)
    return jax.pure_callback(append, shape, given, vmap_method="expand_dims")


def recorded_loss(part: Part, seen: list[np.ndarray]) -> Part:
    """Return the same loss, which also records the scalars of every call."""

    def loss(meta_params, context, *scalars):
        one = _write_down(jnp.stack([jnp.asarray(each) for each in scalars]), seen)
        return one * part.apply(meta_params, context, *scalars)

    return HandWritten(part.slot, loss)


def _slope(part, meta_params, context, first, *others):
    return jax.grad(lambda x: part.apply(meta_params, context, x, *others))(first)


def _errors(scalars: np.ndarray) -> dict[str, np.ndarray]:
    prediction, target, old_prediction = scalars.T
    return {"error": prediction - target, "target": target, "change": prediction - old_prediction}


def _slope_at_error(part, meta_params, context, inputs):
    prediction = inputs["error"] + inputs["target"]
    others = inputs["target"], prediction - inputs["change"]
    return _slope(part, meta_params, context, prediction, *others)


def _ratios(scalars: np.ndarray) -> dict[str, np.ndarray]:
    log_ratio, advantage = scalars.T
    ratio = np.exp(np.clip(log_ratio, -20, 20))
    return {"log_ratio": log_ratio, "ratio": ratio, "advantage": advantage}


def _slope_at_ratio(part, meta_params, context, inputs):
    return _slope(part, meta_params, context, inputs["log_ratio"], inputs["advantage"])


def recorded_optimizer(part: Any, seen: list[np.ndarray]) -> Part:
    """Return the same optimizer, which also records its inputs for some parameters."""

    def make_optimizer(meta_params, context):
        def optimizer(places: list[int]) -> optax.GradientTransformationExtraArgs:
            def direction(all_seen: Seen, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
                scalars = jnp.stack([all_seen.by_name[name] for name in FEATURES], axis=1)
                one = _write_down(scalars[np.asarray(places)], seen)
                return one * part.direction(meta_params, all_seen), memory

            return signals.optimizer(direction, context)

        def update(updates, state, params, **told):
            return optimizer(_some(params)).update(updates, state, params, **told)

        return optax.GradientTransformationExtraArgs(optimizer([]).init, update)

    return HandWritten(part.slot, make_optimizer)


def _some(params: PyTree) -> list[int]:
    """Return at most OF_ARRAY places in every array of parameters, which are one vector."""
    rng, chosen, start = np.random.default_rng(0), [], 0
    for leaf in jax.tree.leaves(params):
        chosen += (start + rng.permutation(leaf.size)[:OF_ARRAY]).tolist()
        start += leaf.size
    return chosen


def _step(part, meta_params, context, inputs):
    """Return the step of one parameter."""
    found = jnp.stack([inputs[name] for name in SIGNALS])[:, None]
    size, value, policy = (inputs[name][None] for name in ("size", "value", "policy"))
    length = signals.length(context)
    seen = Seen(SIGNALS, found, size, value, policy, context.progress, length)
    return part.direction(meta_params, seen)[0]


TARGETS: dict[str, Target] = {
    "value_loss": Target(
        "the slope of value_loss", "slope", recorded_loss, _errors, _slope_at_error
    ),
    "policy_loss": Target(
        "the slope of policy_loss",
        "slope",
        recorded_loss,
        _ratios,
        _slope_at_ratio,
        known=" - ratio * advantage",
    ),
    "make_optimizer": Target(
        "the step of a parameter, in learning rates",
        "value",
        recorded_optimizer,
        lambda scalars: dict(zip(FEATURES, scalars.T, strict=True)),
        _step,
    ),
}
