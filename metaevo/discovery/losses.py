"""Targets for formulas and networks fitted to a loss: its slope, as learners use only the slope.

Two losses with values that agree to a percent may push predictions near zero error in opposite
directions. A policy loss contains ratio * advantage; the search is for its drift.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.component import Component
from metaevo.components.parts import Part
from metaevo.discovery.records import Target, ValueOf, written_down


def slope_of(part: Part) -> ValueOf:
    """Return a loss's derivative by its first scalar."""

    def slope(meta_params, scalars, context):
        first, *others = scalars
        return jax.grad(lambda x: part.function(meta_params, context, x, *others))(first)

    return slope


def listened(component: Component, seen: list[np.ndarray]) -> Component:
    """Return the same loss, which also records the scalars of every call."""

    def of_slot(meta_params, context, *scalars):
        one = written_down(jnp.stack([jnp.asarray(each) for each in scalars]), seen)
        return one * component.apply(meta_params, context, *scalars)

    return component._replace(apply=of_slot)


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


def _to_action(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack([inputs["log_ratio"], inputs["advantage"]], axis=1)


VALUE_LOSS = Target(
    "the slope of value_loss", "slope", listened, slope_of, _of_prediction, _to_prediction
)
POLICY_LOSS = Target(
    "the slope of policy_loss",
    "slope",
    listened,
    slope_of,
    _of_action,
    _to_action,
    known=" - ratio * advantage",
)
