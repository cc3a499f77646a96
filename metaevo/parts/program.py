"""A program in a slot of a learner: an expression as data, of which the structure evolves.

    evolve: program
    component: {slot: value_loss, gives: slope, inputs: [error], length: 16}

The language is that of formulas (`metaevo.parts.expressions`). A program is an array of codes
and an array of constants (`metaevo.evolution.postfix`), which an interpreter evaluates, so one
compiled training serves all programs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Interval

from metaevo.config import show
from metaevo.config.plain import PlainMapping
from metaevo.evolution import growth, postfix
from metaevo.evolution.evosax import GENETIC_PROGRAMMING, StrategyConfig
from metaevo.evolution.postfix import Programs
from metaevo.parts import behaviour, formula, interpreter, zoo
from metaevo.parts.expressions import parse
from metaevo.parts.part import Evolved, Part
from metaevo.parts.program_text import compiled, text
from metaevo.parts.rule import LANGUAGES, Language, Rule, fill, language_of
from purerl.types import Context, MetaParams, PyTree, Slot

Operation = Literal[
    "add", "subtract", "multiply", "divide", "minimum", "maximum", "where", "clip", "negate", "abs",
    "sign", "square", "tanh", "exp", "log1p", "sqrt", "power"
]  # fmt: skip
_height = jax.jit(growth.height)


class Strategy(StrategyConfig):
    """Settings of the strategy, which by default varies programs."""

    algorithm: str = GENETIC_PROGRAMMING
    """genetic_programming, or a strategy of your own as FILE.py:CLASS or MODULE:CLASS"""


@dataclass(frozen=True)
class Program(Part):
    """The language of the programs, and where their evolution starts.

    Raises:
        ValueError: for a name that is not known, or a start that is no program of the language.
    """

    strategy: ClassVar[type[StrategyConfig]] = Strategy
    slot: str = "value_loss"  # type: ignore[misc]
    """that it fills: value_loss, policy_loss, make_optimizer, schedule, or one of a learner of your
    own that is a function of scalars"""
    gives: Literal["value", "slope"] = "value"
    """whether a program is the loss or its derivative by its first argument"""
    inputs: tuple[str, ...] = ()
    """inputs of the slot that programs may use, named as in formulas; by default all"""
    operations: tuple[Operation, ...] = (
        "add", "subtract", "multiply", "divide", "minimum", "maximum", "where", "clip", "negate",
        "abs", "sign", "square", "tanh", "exp", "log1p", "sqrt"
    )  # fmt: skip
    """that programs may use; each costs time, whether it is used or not"""
    length: Annotated[int, Interval(ge=1, le=128)] = 24
    """largest number of operations, inputs and constants of a program"""
    depth: Annotated[int, Interval(ge=1, le=16)] = 8
    """largest number of levels of a program's tree"""
    start: tuple[str, ...] = ()
    """expressions, names of hand-written functions of the slot or zoo entries of such ones; half of
    the first programs are these, and the others are random, as all are without it"""
    hyperparams: tuple[str, ...] = ("learning_rate",)
    """schedule: the hyperparameters that are multiplied, each by a program of its own"""
    arguments: tuple[str, ...] = ()
    """scalar arguments of a slot of your own; by default those of the learner's slot"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if self.language is None:  # until it is in a learner's slot
            return
        known = self.language.names
        for name in self.inputs:
            if name not in known:
                raise ValueError(f"inputs: {show(name)} must be one of {', '.join(known)}")
        for key in ("inputs", "operations", "hyperparams"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                raise ValueError(f"{key}: must name each once")
        if self.slot == "schedule" and not self.hyperparams:
            raise ValueError("hyperparams: must name at least one")
        if self.gives == "slope" and not self.language.arguments:
            raise ValueError(f"gives = 'slope': must be 'value' in the slot {self.slot}")
        for expression in self.start:
            self.compiled(expression)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs of programs, in the order of their codes."""
        return self.inputs or self._known().names

    @property
    def language(self) -> Language | None:
        """The names that programs may look at."""
        return language_of(self.slot, self.arguments)

    def _known(self) -> Language:
        if self.language is None:
            raise ValueError(f"slot = {show(self.slot)}: takes no programs, or has no learner yet")
        return self.language

    def in_slot(self, slot: Slot) -> "Program":
        """Return the programs with the slot's scalar arguments."""
        known = LANGUAGES.get(slot.name)
        if slot.inputs == (known.arguments if known else ()):
            return self
        return replace(self, arguments=slot.inputs)

    @property
    def count(self) -> int:
        """Number of programs: one for each hyperparam of a schedule, else one."""
        return len(self.hyperparams) if self.slot == "schedule" else 1

    @property
    def hyperparam(self) -> str:
        """The first of a schedule's hyperparams."""
        return self.hyperparams[0]

    @property
    def also(self) -> tuple[str, ...]:
        """The others, if it is a schedule."""
        return self.hyperparams[1:] if self.slot == "schedule" else ()

    def compiled(self, expression: str) -> tuple[np.ndarray, np.ndarray]:
        """Return codes [length] and constants [length] of an expression, or of a name in `start`.

        Raises:
            ValueError: if it is no program of the language.
        """
        numbers: PlainMapping = {}
        name = expression
        if zoo.is_name(expression):
            name = zoo.find(expression).card["function"] or ""
        hand_written = formula.HAND_WRITTEN.get(self.slot, {}).get(name)
        where = f"start = {show(expression)}"
        if hand_written is not None:
            if hand_written.gives != self.gives:
                raise ValueError(f"{where}: needs gives = {hand_written.gives!r}")
            expression, numbers = hand_written.expression, hand_written.constants
        try:
            return self.read(expression, numbers)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    def read(self, expression: str, numbers: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Return codes [length] and constants [length] of an expression with named numbers.

        Raises:
            ValueError: if it is no program of the language.
        """
        codes, constants = compiled(
            parse(expression, self.names, numbers),
            self.names,
            length=self.length,
            operations=self.operations,
            numbers=numbers,
        )
        if (levels := int(_height(codes))) > self.depth:
            raise ValueError(f"has {levels} levels; at most {self.depth} (depth)")
        return codes, constants

    def text(self, meta_params: PlainMapping) -> str:
        """Return the programs as expressions; of several, each behind its hyperparam."""
        texts = []
        for program in zip(meta_params["codes"], meta_params["constants"], strict=True):
            codes, constants = map(np.asarray, program)
            is_valid = postfix.is_valid(jnp.asarray(codes), len(self.names))
            texts.append(text(codes, constants, self.names) if is_valid else "no program")
        if not self.also:
            return texts[0]
        return "; ".join(
            f"{name}: {each}" for name, each in zip(self.hyperparams, texts, strict=True)
        )

    def init(self, key: jax.Array) -> PyTree:
        """Return codes [programs, length] int32 and constants [programs, length]."""
        with jax.ensure_compile_time_eval():
            starts = [self.compiled(each) for each in self.start]

        def init_one(key):
            draw_key, choice_key, half_key = jax.random.split(key, 3)
            drawn = growth.random_program(
                draw_key, self.operations, len(self.names), self.length, self.depth
            )
            if not starts:
                return drawn
            given = [jnp.stack(each) for each in zip(*starts, strict=True)]
            index = jax.random.randint(choice_key, (), 0, len(starts))
            half = jax.random.bernoulli(half_key)
            pairs = zip(given, drawn, strict=True)
            return tuple(jnp.where(half, each[index], other) for each, other in pairs)

        keys = jax.random.split(key, self.count)
        return dict(zip(("codes", "constants"), jax.vmap(init_one)(keys), strict=True))

    def apply(self, meta_params: MetaParams, context: Context, *arguments: Any) -> Any:
        """Apply the slot's function."""
        return self._function(meta_params, context, *arguments)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        def program_of(meta_params, number=0):
            return meta_params["codes"][number], meta_params["constants"][number]

        def evaluate(meta_params, inputs, number):
            values = [inputs[name] for name in self.names]
            return interpreter.evaluate(self.operations, program_of(meta_params, number), values)

        def along(view):
            def inputs_of(x, others):
                inputs = view(x, others)
                return [jnp.float32(inputs[name]) for name in self.names]

            return interpreter.differentiable(
                self.operations, lambda others: program_of(others["meta_params"]), inputs_of
            )

        rule = Rule(frozenset(self.names), evaluate, along, self.gives)
        return fill(self.slot, self._known(), rule, self.hyperparams)

    def fingerprint(self, meta_params: PlainMapping, points: int = behaviour.POINTS) -> jax.Array:
        """Return the outputs of programs on the batch of their slot, [programs * points]."""
        language = self._known()
        if language.arguments and language is LANGUAGES.get(self.slot):
            return behaviour.slopes(self.slot, self.apply, meta_params, points)
        inputs = behaviour.batch(self.slot, points, arguments=language.arguments)
        values = [inputs[name] for name in self.names]
        codes, constants = meta_params["codes"], meta_params["constants"]
        outputs = [
            interpreter.evaluate(self.operations, (codes[number], constants[number]), values)
            for number in range(self.count)
        ]
        return jnp.concatenate(outputs)

    def programs(self) -> Programs:
        """Return how programs behave, for strategies that vary them."""
        return Programs(
            self.depth, self.fingerprint, behaviour.is_valid, behaviour.is_same, self.text
        )

    def findings(self, found: Evolved) -> list[str]:
        """Return the evolved programs as expressions."""
        return [formula.described(self, found.meta_params)]
