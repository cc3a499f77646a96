"""A formula that a person writes, in a slot of a learner; its constants are what evolves.

    evolve: formula
    component: {slot: value_loss, expression: "error**2 / 2 + c0 * error", constants: {c0: 0.1}}

The language is defined in `metaevo.parts.expressions`; formulas are never executed as Python.
A loss may also be given by its slope (`gives: slope`), as learners use only the slope. Its value is
then the slope's integral from zero error, or from ratio 1.

Evolution changes the constants in units of their initial values (of 1 if the initial value is 0),
so a step of 0.1 is a tenth of each.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from metaevo.config import PlainMapping, show
from metaevo.parts.expressions import Expression, parse
from metaevo.parts.languages import Rule, Written, joined
from purerl.types import PyTree

RELATIVE = "relative"
"""The only key of meta-parameters: the constants in their `units`."""


@dataclass(frozen=True)
class Formula(Written):
    """A formula with evolved constants.

    Raises:
        ValueError: if it is not a formula, or its constants do not match the names that it uses.
    """

    expression: str = "error**2 / 2 + c0 * error"
    """value_loss: of prediction, target, old_prediction, error (prediction - target), change
    (prediction - old_prediction); policy_loss: of log_ratio, ratio, advantage, length;
    make_optimizer: the step, of gradient, mean_5, mean_9, mean_99, mean_999, size, value, policy,
    length; targets: the advantage of a step, of delta, next_advantage, next_target, reward, value,
    next_value, terminated, done, log_prob, ratio, gamma, gae_lambda, delta_1, delta_2, delta_4,
    delta_8, length; other slots: of the scalar arguments, length; all: of progress"""
    constants: dict[str, float] = field(default_factory=lambda: {"c0": 0.1})
    """names of evolved constants, with their initial values"""
    hyperparam: str = "learning_rate"
    """schedule: the hyperparameter that is multiplied by the formula"""
    also: dict[str, str] = field(default_factory=dict)
    """schedule: more hyperparams, with the formulas that they are multiplied by"""

    def check(self) -> None:
        """Check the formulas."""
        names = frozenset().union(*(each.names for each in self.factors.values()))
        if unused := set(self.constants) - names:
            raise ValueError(f"constants: {', '.join(sorted(unused))} must occur in expression")
        if self.also and self.slot != "schedule":
            raise ValueError(f"also: must be left out in the slot {self.slot}")
        if self.hyperparam in self.also:
            raise ValueError(f"also: {show(self.hyperparam)} has its formula in expression")

    @classmethod
    def for_slot(cls, slot: str) -> "Formula":
        """Return the default formula of a slot: its reference, where that has a formula."""
        known = {} if slot == cls.slot else HAND_WRITTEN.get(slot, {})
        return next(iter(known.values()), None) or cls(slot=slot)

    @property
    def factors(self) -> dict[str, Expression]:
        """The formula, or those of a schedule, by the hyperparams that they multiply."""
        texts = {self.hyperparam: self.expression, **self.also}
        names = self.known.names
        return {name: parse(text, names, self.constants) for name, text in texts.items()}

    @property
    def length(self) -> int:
        """Length of the formula, or the total length of several formulas."""
        return sum(each.length for each in self.factors.values())

    @property
    def units(self) -> dict[str, float]:
        """The constants as written, which meta-parameters of 1 represent."""
        return {name: abs(value) or 1.0 for name, value in self.constants.items()}

    def numbers(self, meta_params: PlainMapping) -> dict[str, float]:
        """Return the constants that meta-parameters stand for."""
        return {
            name: unit * float(meta_params[RELATIVE][name]) for name, unit in self.units.items()
        }

    def text(self, meta_params: PlainMapping) -> str:
        """Return the formula with numbers in the place of its constants."""
        numbers = self.numbers(meta_params)
        return joined({name: each.text(numbers) for name, each in self.factors.items()})

    def init(self, key: jax.Array) -> PyTree:
        """Return the constants in units of their initial values."""
        units = self.units.items()
        return {RELATIVE: {name: jnp.float32(self.constants[name] / each) for name, each in units}}

    @property
    def rule(self) -> Rule:
        """The formulas as functions of named inputs."""
        expressions, units = list(self.factors.values()), self.units

        def evaluate(meta_params, inputs, number):
            constants = {name: unit * meta_params[RELATIVE][name] for name, unit in units.items()}
            return expressions[number].evaluate(inputs | constants)

        return Rule(expressions[0].names, evaluate, self.gives, tuple(self.factors))


HAND_WRITTEN: dict[str, dict[str, Formula]] = {
    "value_loss": {
        "squared": Formula(expression="error", constants={}, gives="slope"),
        "huber": Formula(
            expression="clip(error, -delta, delta)", constants={"delta": 1.0}, gives="slope"
        ),
        "sloped_squared": Formula(
            expression="error + slope", constants={"slope": 0.1}, gives="slope"
        ),
        "clipped_squared": Formula(
            expression="maximum(error**2, (error - change + clip(change, -epsilon, epsilon))**2)/2",
            constants={"epsilon": 0.2},
        ),
    },
    "policy_loss": {
        "clipped_surrogate": Formula(
            slot="policy_loss",
            expression="-minimum(ratio * advantage, clip(ratio, low, high) * advantage)",
            constants={"low": 0.8, "high": 1.2},
        ),
        "dpo": Formula(
            slot="policy_loss",
            expression="where(advantage > 0, "
            "maximum((ratio - 1) * advantage - a * tanh((ratio - 1) * advantage / a), 0), "
            "maximum(log_ratio * advantage - b * tanh(log_ratio * advantage / b), 0)) "
            "- ratio * advantage",
            constants={"a": 2.0, "b": 0.6},
        ),
    },
    "make_optimizer": {
        "adam": Formula(slot="make_optimizer", expression="mean_9", constants={}),
    },
    "schedule": {
        "constant": Formula(slot="schedule", expression="1", constants={}),
        "linear": Formula(
            slot="schedule",
            expression="1 - progress",
            constants={},
            hyperparam="clip_epsilon",
            also={"entropy_coef": "1 - progress"},
        ),
    },
    "targets": {
        "gae": Formula(
            slot="targets", expression="delta + gamma * gae_lambda * next_advantage", constants={}
        ),
        "q_lambda": Formula(
            slot="targets",
            expression="delta + gamma * gae_lambda * (next_target - next_value)",
            constants={},
        ),
    },
}
"""Hand-written losses, optimizers, schedules and targets as formulas, by slot and name.

Hyperparameters that are no inputs are constants of these formulas, with their defaults.
"""
