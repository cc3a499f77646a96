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
from metaevo.parts.optimizer import LearnedOptimizer
from metaevo.parts.part import HandWritten, Part
from metaevo.parts.signals import FEATURES, SIGNALS, Seen
from purerl.types import Context, PyTree

OF_ARRAY = 32
"""Recorded parameters of each array; equal numbers give small arrays the weight of large ones."""

ValueOf = Callable[[Any, jax.Array, Context], jax.Array]
"""`(meta_params, scalars [k], context) -> number`"""


class Target(NamedTuple):
    """The quantity that formulas for a slot are fitted to."""

    what: str
    """description"""
    gives: Literal["value", "slope"]
    """whether a formula is the loss or its slope, see `metaevo.parts.formula`"""
    listened: Callable[[Any, list[np.ndarray]], Part]
    """the same part, which appends the scalars [..., k] that it is given to a list"""
    value_of: Callable[[Any], ValueOf]
    """the part's outputs for given scalars"""
    inputs_of: Callable[[np.ndarray], dict[str, np.ndarray]]
    """from scalars [samples, k] to the inputs of formulas, [samples] each"""
    scalars_of: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    """inverse of `inputs_of`"""
    known: str = ""
    """the fixed end of every formula; the search finds the rest"""


def written_down(scalars: jax.Array, seen: list[np.ndarray]) -> jax.Array:
    """Append scalars [..., k] to a list, whenever a program comes here; return 1.

    It must be a factor of the program's result, or XLA removes it.
    """

    def write_down(given):
        seen.append(np.array(given))
        return np.ones(np.shape(given)[: np.ndim(given) - scalars.ndim], np.float32)

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    given = jax.lax.stop_gradient(scalars)
    return jax.pure_callback(write_down, shape, given, vmap_method="expand_dims")


# --- Losses -------------------------------------------------------------------------------------


def slope_of(part: Part) -> ValueOf:
    """Return a loss's derivative by its first scalar."""

    def slope(meta_params, scalars, context):
        first, *others = scalars
        return jax.grad(lambda x: part.apply(meta_params, context, x, *others))(first)

    return slope


def listened_loss(part: Part, seen: list[np.ndarray]) -> Part:
    """Return the same loss, which also records the scalars of every call."""

    def of_slot(meta_params, context, *scalars):
        one = written_down(jnp.stack([jnp.asarray(each) for each in scalars]), seen)
        return one * part.apply(meta_params, context, *scalars)

    return HandWritten(part.slot, of_slot)


def _of_prediction(scalars: np.ndarray) -> dict[str, np.ndarray]:
    prediction, target, old_prediction = scalars.T
    return {"error": prediction - target, "target": target, "change": prediction - old_prediction}


def _to_prediction(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    prediction = inputs["error"] + inputs["target"]
    return np.stack([prediction, inputs["target"], prediction - inputs["change"]], axis=1)


def _of_action(scalars: np.ndarray) -> dict[str, np.ndarray]:
    log_ratio, advantage = scalars.T
    ratio = np.exp(np.clip(log_ratio, -20, 20))
    return {"log_ratio": log_ratio, "ratio": ratio, "advantage": advantage}


# --- Optimizers ---------------------------------------------------------------------------------


def step_of(part: LearnedOptimizer) -> ValueOf:
    """Return the step of one parameter as a function of FEATURES."""

    def step(meta_params, scalars, context):
        found, (size, value, policy) = jnp.split(scalars[:, None], [len(SIGNALS)])
        length = jnp.log(jnp.float32(context.num_updates)) / 10.0
        seen = Seen(SIGNALS, found, size, value, policy, context.progress, length)
        return part.direction(meta_params, seen)[0]

    return step


def listened_optimizer(part: LearnedOptimizer, seen: list[np.ndarray]) -> Part:
    """Return the same optimizer, which also records its inputs for some parameters."""

    def make_optimizer(meta_params, context):
        def optimizer(at: list[int]) -> optax.GradientTransformationExtraArgs:
            def of_all(all_seen: Seen, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
                scalars = jnp.stack([all_seen.by_name[name] for name in FEATURES], axis=1)
                one = written_down(scalars[np.asarray(at)], seen)
                return one * part.direction(meta_params, all_seen), memory

            return signals.optimizer(of_all, context)

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


TARGETS: dict[str, Target] = {
    "value_loss": Target(
        "the slope of value_loss", "slope", listened_loss, slope_of, _of_prediction, _to_prediction
    ),
    "policy_loss": Target(
        "the slope of policy_loss",
        "slope",
        listened_loss,
        slope_of,
        _of_action,
        lambda inputs: np.stack([inputs["log_ratio"], inputs["advantage"]], axis=1),
        known=" - ratio * advantage",
    ),
    "make_optimizer": Target(
        "the step of a parameter, in learning rates",
        "value",
        listened_optimizer,
        step_of,
        lambda scalars: dict(zip(FEATURES, scalars.T, strict=True)),
        lambda inputs: np.stack([inputs[name] for name in FEATURES], axis=1),
    ),
}
