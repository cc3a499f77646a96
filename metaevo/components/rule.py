"""Functions of slots, made from a function of named inputs: a formula's or a program's."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components import signals
from metaevo.components.schedule import FRACTIONS
from purerl.types import Context, Hyperparams, MetaParams

INPUTS: dict[str, tuple[str, ...]] = {
    "value_loss": ("prediction", "target", "old_prediction", "error", "change", "progress"),
    "policy_loss": ("log_ratio", "ratio", "advantage", *signals.TIMES),
    "make_optimizer": (*signals.FEATURES, *signals.TIMES),
    "schedule": ("progress",),
}
"""Inputs by slot. error: prediction - target; change: prediction - old_prediction; ratio: of the
new and the old probability. Progress, length and the inputs of an optimizer:
`metaevo.components.signals.Seen`."""
LOG_RATIO_LIMIT = 20.0
"""Beyond it a policy loss is constant: exp and its square stay far from float32's largest."""
POINTS, WEIGHTS = (each.astype(np.float32) for each in np.polynomial.legendre.leggauss(16))
"""Of the quadrature that turns a slope into the value of a loss."""

View = Callable[[jax.Array, dict[str, Any]], dict[str, Any]]
"""`(x, others) -> inputs by name`; x is the argument by which a loss is differentiated, and others
has the other arguments and "meta_params"."""
Along = Callable[[View], Callable[[jax.Array, dict[str, Any]], jax.Array]]
"""From a view to `(x, others) -> number`, which can be differentiated by x."""


class Rule(NamedTuple):
    """A function of named inputs, with meta-parameters."""

    names: frozenset[str]
    """inputs that it looks at"""
    evaluate: Callable[[MetaParams, Mapping[str, Any], int], jax.Array]
    """`(meta_params, inputs, number) -> value`; number counts the hyperparams of a schedule"""
    along: Along
    gives: str = "value"
    """whether it is a loss, or the derivative of a loss (slope)"""


def fill(slot: str, rule: Rule, hyperparams: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return the slot's function in `purerl.types`; a schedule multiplies the hyperparams."""

    def loss(function, x, start, context, others):
        if "progress" in rule.names:
            others["progress"] = context.progress
        if "length" in rule.names:
            others["length"] = signals.length(context)
        if rule.gives == "value":
            return function(x, others)
        return integral(function)(x, jnp.asarray(start, jnp.float32), others)

    of_prediction, of_log_ratio = rule.along(_by_prediction), rule.along(_by_log_ratio)

    def value_loss(meta_params, context, prediction, target, old_prediction):
        others = {"target": target, "old_prediction": old_prediction, "meta_params": meta_params}
        return loss(of_prediction, prediction, target, context, others)

    def policy_loss(meta_params, context, log_ratio, advantage):
        others = {"advantage": advantage, "meta_params": meta_params}
        return loss(of_log_ratio, log_ratio, 0.0, context, others)

    def make_optimizer(meta_params, context):
        def direction(seen, memory):
            found = rule.evaluate(meta_params, seen.by_name, 0)
            return jnp.broadcast_to(found, seen.value.shape), memory

        means = [name for name in signals.MEANS if name in rule.names]
        return signals.optimizer(direction, context, means=means)

    def schedule(meta_params, context):
        return _scheduled(rule, hyperparams, meta_params, context)

    functions: list[Callable[..., Any]] = [value_loss, policy_loss, make_optimizer, schedule]
    return dict(zip(INPUTS, functions, strict=True))[slot]


def _by_prediction(prediction: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    inputs = {"prediction": prediction, "error": prediction - others["target"]}
    inputs["change"] = prediction - others["old_prediction"]
    return inputs | others


def _by_log_ratio(log_ratio: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return {"log_ratio": log_ratio, "ratio": jnp.exp(log_ratio)} | others


def _scheduled(
    rule: Rule, names: tuple[str, ...], meta_params: MetaParams, context: Context
) -> Hyperparams:
    hyperparams, changed = context.hyperparams, {}
    for number, name in enumerate(names):
        if not hasattr(hyperparams, name):
            raise TypeError(f"the learner has no {name}")
        factor = rule.evaluate(meta_params, {"progress": context.progress}, number)
        changed[name] = getattr(hyperparams, name) * factor
        if name in FRACTIONS:
            changed[name] = jnp.clip(changed[name], 0.0, 1.0)
    return hyperparams.replace(**changed)


def integral(slope: Callable[[jax.Array, Any], jax.Array]) -> Callable[..., jax.Array]:
    """Return a function with exactly the given derivative.

    Args:
        slope: `(x, others) -> derivative by x`.

    Returns:
        `(x, start, others) -> value`, zero at start, by Gauss-Legendre quadrature. It can be
        differentiated by x only.
    """

    @jax.custom_jvp
    def value(x, start, others):
        middle, half = (x + start) / 2, (x - start) / 2
        slopes = jax.vmap(slope, in_axes=(0, None))(middle + half * POINTS, others)
        return half * jnp.sum(WEIGHTS * slopes)

    @value.defjvp
    def derivative(primals, tangents):
        x, start, others = primals
        return value(x, start, others), slope(x, others) * tangents[0]

    return value
