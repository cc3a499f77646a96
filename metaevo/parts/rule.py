"""Functions of slots, made from a function of named inputs: a formula's or a program's."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts import signals
from metaevo.parts.schedule import FRACTIONS
from purerl.types import Context, Hyperparams, MetaParams

LOG_RATIO_LIMIT = 20.0
"""Beyond it a policy loss is constant: exp and its square stay far from float32's largest."""


class Language(NamedTuple):
    """What a formula or a program in a slot is a function of."""

    arguments: tuple[str, ...]
    """the slot's scalar arguments; the first is the one by which it is differentiated"""
    names: tuple[str, ...]
    """inputs of formulas"""
    view: Callable[[jax.Array, dict[str, Any]], dict[str, Any]]
    """from the first argument, and the others by name, to inputs by name"""
    start: str = ""
    """the argument at which a loss that is given by its slope is zero; by default at zero"""


def _value_loss(prediction: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    inputs = {"prediction": prediction, "error": prediction - others["target"]}
    inputs["change"] = prediction - others["old_prediction"]
    return inputs | others


def _policy_loss(log_ratio: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return {"log_ratio": log_ratio, "ratio": jnp.exp(log_ratio)} | others


LANGUAGES = {
    "value_loss": Language(
        ("prediction", "target", "old_prediction"),
        ("prediction", "target", "old_prediction", "error", "change", "progress"),
        _value_loss,
        start="target",
    ),
    "policy_loss": Language(
        ("log_ratio", "advantage"),
        ("log_ratio", "ratio", "advantage", *signals.TIMES),
        _policy_loss,
    ),
    "make_optimizer": Language((), (*signals.FEATURES, *signals.TIMES), lambda x, others: others),
    "schedule": Language((), ("progress",), lambda x, others: others),
}
"""The slots of metaevo's learners. error: prediction - target; change: prediction - old_prediction;
ratio: of the new and the old probability. Progress, length and the inputs of an optimizer:
`metaevo.parts.signals.Seen`."""


def language_of(slot: str, arguments: tuple[str, ...] = ()) -> Language | None:
    """Return the language of a slot, which of other learners' slots is their scalar arguments.

    None if these are not known.
    """
    known = LANGUAGES.get(slot)
    if known is not None and arguments in ((), known.arguments):
        return known
    if not arguments:
        return None
    first, *_ = arguments
    return Language(arguments, (*arguments, *signals.TIMES), lambda x, others: {first: x} | others)


POINTS, WEIGHTS = (each.astype(np.float32) for each in np.polynomial.legendre.leggauss(16))
"""Of the quadrature that turns a slope into the value of a loss."""

Along = Callable[[Any], Callable[[jax.Array, dict[str, Any]], jax.Array]]
"""From the view of a language to `(x, others) -> number`, which can be differentiated by x; others
has the other arguments and "meta_params"."""


class Rule(NamedTuple):
    """A function of named inputs, with meta-parameters."""

    names: frozenset[str]
    """inputs that it looks at"""
    evaluate: Callable[[MetaParams, Mapping[str, Any], int], jax.Array]
    """`(meta_params, inputs, number) -> value`; number counts the hyperparams of a schedule"""
    along: Along
    gives: str = "value"
    """whether it is a loss, or the derivative of a loss (slope)"""


def fill(
    slot: str, language: Language, rule: Rule, hyperparams: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """Return the slot's function; a schedule multiplies the hyperparams."""

    def make_optimizer(meta_params, context):
        def direction(seen, memory):
            found = rule.evaluate(meta_params, seen.by_name, 0)
            return jnp.broadcast_to(found, seen.value.shape), memory

        means = [name for name in signals.MEANS if name in rule.names]
        return signals.optimizer(direction, context, means=means)

    def schedule(meta_params, context):
        return _scheduled(rule, hyperparams, meta_params, context)

    along = rule.along(language.view)

    def of_scalars(meta_params, context, x, *rest):
        others = dict(zip(language.arguments[1:], rest, strict=True)) | {"meta_params": meta_params}
        if "progress" in rule.names:
            others["progress"] = context.progress
        if "length" in rule.names:
            others["length"] = signals.length(context)
        if rule.gives == "value":
            return along(x, others)
        start = others[language.start] if language.start else 0.0
        return integral(along)(x, jnp.asarray(start, jnp.float32), others)

    if language.arguments:
        return of_scalars
    return {"make_optimizer": make_optimizer, "schedule": schedule}[slot]


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
