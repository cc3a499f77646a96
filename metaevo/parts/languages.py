"""What formulas and programs are functions of, slot by slot, and how they fill it.

A `Language` has the inputs that a formula in a slot may name, makes the slot's function from a
function of these inputs, and draws inputs as they occur in training. A new slot needs one entry of
LANGUAGES; a slot of scalars has one without an entry.

What programs compute on these inputs tells useless ones and duplicates: the slope of a loss, the
step of an optimizer, the factor of a schedule, the advantage of a step, the value of another
function of scalars.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import PlainMapping, show
from metaevo.parts import optimizer
from metaevo.parts.drift import LOG_RATIO_LIMIT
from metaevo.parts.part import TIMES, Part, length
from metaevo.parts.schedule import FRACTIONS
from purerl.parts import step_targets
from purerl.types import Context, Hyperparams, MetaParams, Slot

if TYPE_CHECKING:
    from metaevo.reports.pictures import Evolved

POINTS = 64
"""Of the inputs on which programs are compared."""
Function = Callable[..., Any]
View = Callable[[jax.Array, dict[str, Any]], dict[str, Any]]
"""From a slot's first argument, and the others by name, to inputs by name."""
Draw = Callable[[np.random.Generator], dict[str, np.ndarray]]


class Rule(NamedTuple):
    """A function of named inputs, with meta-parameters: a formula or a program."""

    names: frozenset[str]
    """inputs that it looks at"""
    evaluate: Callable[[MetaParams, Mapping[str, Any], int], jax.Array]
    """`(meta_params, inputs, number) -> value`; number counts the hyperparams of a schedule"""
    gives: str = "value"
    """whether it is a loss, or the derivative of a loss (slope)"""
    hyperparams: tuple[str, ...] = ()
    """of a schedule"""
    forward: bool = False
    """whether it can be differentiated in forward mode only"""


class Language(NamedTuple):
    """What a formula or a program in a slot is a function of, and what the slot makes of it."""

    names: tuple[str, ...]
    """inputs of formulas"""
    fill: Callable[[Rule], Function]
    """returns the slot's function"""
    draw: Draw
    """returns inputs [POINTS] by name as they occur in training: the arguments of a loss, or the
    inputs of another function, without TIMES"""
    arguments: tuple[str, ...] = ()
    """the slot's scalar arguments; the first is the one by which it is differentiated"""

    def batch(self) -> dict[str, jax.Array]:
        """Return inputs by name, [POINTS], always the same: over the whole of training, evenly."""
        rng = np.random.default_rng(0)
        found = self.draw(rng)
        found["progress"] = rng.permutation(np.linspace(0.0, 1.0, POINTS))
        found["length"] = np.log(10 ** rng.uniform(1, 5, POINTS)) / 10  # 10 to 100,000 updates
        return {name: jnp.float32(each) for name, each in found.items()}

    def slopes(self, loss: Function, meta_params: PlainMapping) -> jax.Array:
        """Return the derivatives of a loss by its first argument on the batch, [POINTS]."""
        inputs = self.batch()

        def slope(progress, length, argument, *others):
            context = Context(None, progress=progress, num_updates=jnp.exp(10.0 * length))
            return jax.grad(lambda x: loss(meta_params, context, x, *others))(argument)

        return jax.vmap(slope)(*(inputs[name] for name in (*TIMES, *self.arguments)))


# --- Functions of scalars -----------------------------------------------------------------------


def of_scalars(arguments: tuple[str, ...], view: View, start: str, rule: Rule) -> Function:
    """Return a function of scalars; one that is given by its slope is zero at an argument, or 0."""
    value = differentiable(rule, view)

    def function(meta_params, context, x, *rest):
        others = dict(zip(arguments[1:], rest, strict=True)) | {"meta_params": meta_params}
        if "progress" in rule.names:
            others["progress"] = context.progress
        if "length" in rule.names:
            others["length"] = length(context)
        if rule.gives == "value":
            return value(x, others)
        begin = others[start] if start else 0.0
        return integral(value)(x, jnp.asarray(begin, jnp.float32), others)

    return function


def differentiable(rule: Rule, view: View) -> Callable[[jax.Array, dict[str, Any]], jax.Array]:
    """Return `(x, others) -> number`, which can be differentiated by x.

    `others` has the other arguments and "meta_params".
    """

    def value(x, others):
        return rule.evaluate(others["meta_params"], view(x, others), 0)

    if not rule.forward:
        return value
    by_x = jax.custom_jvp(value)

    @by_x.defjvp
    def derivative(primals, tangents):
        x, others = primals
        found, slope = jax.jvp(lambda x: value(x, others), (x,), (jnp.ones_like(x),))
        return found, slope * tangents[0]

    return by_x


NODES, WEIGHTS = (each.astype(np.float32) for each in np.polynomial.legendre.leggauss(16))
"""Of the quadrature that turns a slope into the value of a loss."""


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
        slopes = jax.vmap(slope, in_axes=(0, None))(middle + half * NODES, others)
        return half * jnp.sum(WEIGHTS * slopes)

    @value.defjvp
    def derivative(primals, tangents):
        x, start, others = primals
        return value(x, start, others), slope(x, others) * tangents[0]

    return value


def _scalars(
    arguments: tuple[str, ...],
    names: tuple[str, ...] = (),
    view: View | None = None,
    draw: Draw | None = None,
    start: str = "",
) -> Language:
    """Return the language of a slot of scalars, by default one whose inputs are its arguments."""
    first = arguments[0]
    return Language(
        names or (*arguments, *TIMES),
        partial(of_scalars, arguments, view or (lambda x, others: {first: x} | others), start),
        draw or (lambda rng: {name: rng.normal(0, 1, POINTS) for name in arguments}),
        arguments,
    )


def _sized(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Return numbers of either sign [POINTS], uniform in the logarithm of their size."""
    return rng.choice([-1, 1], POINTS) * np.exp(rng.uniform(np.log(low), np.log(high), POINTS))


def _view_value_loss(prediction: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    inputs = {"prediction": prediction, "error": prediction - others["target"]}
    inputs["change"] = prediction - others["old_prediction"]
    return inputs | others


def _draw_value_loss(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw targets of size 3, errors of 0.01 to 10, changes of the prediction of 0.001 to 1."""
    target = rng.normal(0, 3, POINTS)
    prediction = target + _sized(rng, 1e-2, 10)
    old_prediction = prediction - _sized(rng, 1e-3, 1)
    return {"prediction": prediction, "target": target, "old_prediction": old_prediction}


def _view_policy_loss(log_ratio: jax.Array, others: dict[str, Any]) -> dict[str, Any]:
    log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return {"log_ratio": log_ratio, "ratio": jnp.exp(log_ratio)} | others


def _draw_policy_loss(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw changes of the log probability, an eighth of them 0, and normalised advantages."""
    log_ratio = _sized(rng, 1e-3, 1)
    log_ratio[: POINTS // 8] = 0.0  # as in the first gradient step
    return {"log_ratio": log_ratio, "advantage": rng.normal(0, 1, POINTS)}


# --- Optimizers and schedules -------------------------------------------------------------------


def make_optimizer(rule: Rule) -> Function:
    """Return the slot's function: the rule is the step of a parameter, in learning rates."""
    means = [name for name in optimizer.MEANS if name in rule.names]

    def make(meta_params, context):
        def direction(seen, memory):
            found = rule.evaluate(meta_params, seen.by_name, 0)
            return jnp.broadcast_to(found, seen.value.shape), memory

        return optimizer.optimizer_along(direction, context, means=means)

    return make


def _draw_optimizer(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw gradients and means in units of the gradient's root mean square."""
    found = {name: rng.normal(0, 1, POINTS) for name in optimizer.SIGNALS}
    found |= {"size": rng.normal(0, 1, POINTS), "value": rng.normal(0, 0.3, POINTS)}
    return found | {"policy": rng.integers(0, 2, POINTS)}


def schedule(rule: Rule) -> Function:
    """Return the slot's function: the rule multiplies hyperparams."""

    def scheduled(meta_params: MetaParams, context: Context) -> Hyperparams:
        hyperparams, changed = context.hyperparams, {}
        for number, name in enumerate(rule.hyperparams):
            if not hasattr(hyperparams, name):
                raise TypeError(f"the learner has no {name}")
            factor = rule.evaluate(meta_params, {"progress": context.progress}, number)
            changed[name] = getattr(hyperparams, name) * factor
            if name in FRACTIONS:
                changed[name] = jnp.clip(changed[name], 0.0, 1.0)
        return hyperparams.replace(**changed)

    return scheduled


# --- Targets ------------------------------------------------------------------------------------


def targets(rule: Rule) -> Function:
    """Return the slot's function: the rule is the advantage of a step, from the last one on."""

    def step(meta_params: MetaParams, context: Context, inputs: dict[str, Any]) -> jax.Array:
        times = {"progress": context.progress, "length": length(context)}
        return rule.evaluate(meta_params, inputs | times, 0)

    return step_targets.backwards(step, rule.names)


def _draw_targets(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw steps of a learner whose values are wrong by about 1; an eighth end an episode."""
    found = {name: rng.normal(0, 1, POINTS) for name in ("reward", "next_advantage")}
    terminated, done = np.arange(POINTS) < POINTS // 16, np.arange(POINTS) < POINTS // 8
    next_value = np.where(terminated, 0.0, rng.normal(0, 3, POINTS))
    found["next_advantage"][done] = 0.0
    gamma, error = rng.uniform(0.9, 1.0, POINTS), rng.normal(0, 1, POINTS)
    later = {name: np.where(done, 0.0, rng.normal(0, 1, POINTS)) for name in step_targets.LATER}
    return (
        found
        | later
        | {
            "delta": error,
            "value": found["reward"] + gamma * next_value - error,
            "next_value": next_value,
            "next_target": next_value + found["next_advantage"],
            "terminated": terminated,
            "done": done,
            "log_prob": -np.exp(rng.normal(-1, 1, POINTS)),
            "ratio": np.exp(rng.normal(0, 0.5, POINTS)),
            "gamma": gamma,
            "gae_lambda": rng.uniform(0.5, 1.0, POINTS),
        }
    )


# --- Slots --------------------------------------------------------------------------------------

LANGUAGES = {
    "value_loss": _scalars(
        ("prediction", "target", "old_prediction"),
        ("prediction", "target", "old_prediction", "error", "change", "progress"),
        _view_value_loss,
        _draw_value_loss,
        start="target",
    ),
    "policy_loss": _scalars(
        ("log_ratio", "advantage"),
        ("log_ratio", "ratio", "advantage", *TIMES),
        _view_policy_loss,
        _draw_policy_loss,
    ),
    "make_optimizer": Language((*optimizer.FEATURES, *TIMES), make_optimizer, _draw_optimizer),
    "schedule": Language(("progress",), schedule, lambda rng: {}),
    "targets": Language((*step_targets.STEP_INPUTS, *TIMES), targets, _draw_targets),
}
"""The slots of metaevo's learners. error: prediction - target; change: prediction - old_prediction;
ratio: of the new and the old probability; the inputs of an optimizer: `optimizer.Seen`; the inputs
of targets: `purerl.parts.step_targets.backwards`."""


@dataclass(frozen=True)
class Written(Part):
    """Base of a formula and of programs: rules in a slot, which is one of their settings."""

    slot: str = "value_loss"  # type: ignore[misc]
    """that it fills: value_loss, policy_loss, make_optimizer, schedule, targets, or one of a
    learner of your own that is a function of scalars"""
    gives: Literal["value", "slope"] = field(default="value", kw_only=True)
    """whether it is the loss or the derivative of the loss by its first argument"""
    arguments: tuple[str, ...] = field(default=(), kw_only=True)
    """scalar arguments of a slot of your own; by default those of the learner's slot"""

    def __post_init__(self) -> None:
        """Check what no single field can, when the slot's inputs are known."""
        if self.language is None:  # until it is in a learner's slot
            return
        if self.gives == "slope" and not self.language.arguments:
            raise ValueError(f"gives = 'slope': must be 'value' in the slot {self.slot}")
        self.check()

    def check(self) -> None:
        """Raise `ValueError` for settings that do not fit the slot's inputs."""

    @property
    def rule(self) -> Rule:
        """The function of named inputs."""
        raise NotImplementedError

    def text(self, meta_params: PlainMapping) -> str:
        """Return it as an expression; of several, each behind its hyperparam."""
        raise NotImplementedError

    @property
    def language(self) -> Language | None:
        """The inputs, which of other learners' slots are the scalar arguments; None if unknown."""
        known = LANGUAGES.get(self.slot)
        if known is not None and self.arguments in ((), known.arguments):
            return known
        return _scalars(self.arguments) if self.arguments else None

    @property
    def known(self) -> Language:
        """The language; `ValueError` if the slot takes none, or has no learner yet."""
        if (language := self.language) is None:
            raise ValueError(f"slot = {show(self.slot)}: takes no formula, or has no learner yet")
        return language

    def in_slot(self, slot: Slot) -> Self:
        """Return the part with the slot's scalar arguments."""
        known = LANGUAGES.get(slot.name)
        if slot.inputs == (known.arguments if known else ()):
            return self
        return replace(self, arguments=slot.inputs)

    def apply(self, meta_params: MetaParams, context: Context, *arguments: Any) -> Any:
        """Apply the slot's function."""
        return self._function(meta_params, context, *arguments)

    @cached_property
    def _function(self) -> Function:
        return self.known.fill(self.rule)

    def findings(self, found: "Evolved") -> list[str]:
        """Return the evolved expressions."""
        what = self.slot if self.gives == "value" else f"the slope of {self.slot}"
        if self.slot == "make_optimizer":
            what = "the step of a parameter, in learning rates,"
        if self.slot == "targets":
            what = "the advantage of a step"
        if self.slot == "schedule":
            first, *others = self.rule.hyperparams
            what = "the factors" if others else f"the factor of {first}"
        return [f"The formula: {what} = {self.text(found.meta_params)}."]


def joined(texts: Mapping[str, str]) -> str:
    """Return the text of one expression, or of several, each behind its hyperparam."""
    first, *others = texts.values()
    return "; ".join(f"{name}: {text}" for name, text in texts.items()) if others else first
