"""A program in a slot of a learner: an expression as data, of which the structure evolves.

    evolve: program
    component: {slot: value_loss, gives: slope, inputs: [error], length: 16}

The language is that of formulas (`metaevo.parts.expressions`). A program is an array of codes
and an array of constants (`metaevo.evolution.postfix`), which an interpreter evaluates, so one
compiled training serves all programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Interval

from metaevo.config import PlainMapping, show
from metaevo.evolution import postfix, variation
from metaevo.evolution.evosax import GENETIC_PROGRAMMING, StrategyConfig
from metaevo.evolution.postfix import OPERATIONS, Programs
from metaevo.parts import formula, interpreter
from metaevo.parts.expressions import compiled, parse, program_text
from metaevo.parts.languages import LANGUAGES, Rule, Written, joined
from purerl.types import PyTree

Operation = Literal[*OPERATIONS]  # type: ignore[valid-type]
_height = jax.jit(postfix.height)


class Strategy(StrategyConfig):
    """Settings of the strategy, which by default varies programs."""

    algorithm: str = GENETIC_PROGRAMMING
    """genetic_programming, or a strategy of your own as FILE.py:CLASS or MODULE:CLASS"""


@dataclass(frozen=True)
class Program(Written):
    """The language of the programs, and where their evolution starts.

    Raises:
        ValueError: for a name that is not known, or a start that is no program of the language.
    """

    strategy: ClassVar[type[StrategyConfig]] = Strategy
    inputs: tuple[str, ...] = ()
    """inputs of the slot that programs may use, named as in formulas; by default all"""
    operations: tuple[Operation, ...] = tuple(each for each in OPERATIONS if each != "power")
    """that programs may use; each costs time, whether it is used or not"""
    length: Annotated[int, Interval(ge=1, le=128)] = 24
    """largest number of operations, inputs and constants of a program"""
    depth: Annotated[int, Interval(ge=1, le=16)] = 8
    """largest number of levels of a program's tree"""
    start: tuple[str, ...] = ()
    """expressions, or names of hand-written functions of the slot; half of the first programs are
    these, and the others are random, as all are without it"""
    hyperparams: tuple[str, ...] = ("learning_rate",)
    """schedule: the hyperparameters that are multiplied, each by a program of its own"""

    def check(self) -> None:
        """Check the inputs, and that programs in `start` can be read."""
        known = self.known.names
        for name in self.inputs:
            if name not in known:
                raise ValueError(f"inputs: {show(name)} must be one of {', '.join(known)}")
        for key in ("inputs", "operations", "hyperparams"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                raise ValueError(f"{key}: must name each once")
        if not self.hyperparams:
            raise ValueError("hyperparams: must name at least one")
        for expression in self.start:
            self.compiled(expression)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs of programs, in the order of their codes."""
        return self.inputs or self.known.names

    @property
    def count(self) -> int:
        """Number of programs: one for each hyperparam of a schedule, else one."""
        return len(self.hyperparams) if self.slot == "schedule" else 1

    def compiled(self, expression: str) -> tuple[np.ndarray, np.ndarray]:
        """Return codes [length] and constants [length] of an expression, or of a name in `start`.

        Raises:
            ValueError: if it is no program of the language.
        """
        numbers: PlainMapping = {}
        hand_written = formula.HAND_WRITTEN.get(self.slot, {}).get(expression)
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
            texts.append(program_text(codes, constants, self.names) if is_valid else "no program")
        return joined(dict(zip(self.hyperparams, texts, strict=False)))

    def init(self, key: jax.Array) -> PyTree:
        """Return codes [programs, length] int32 and constants [programs, length]."""
        with jax.ensure_compile_time_eval():
            starts = [self.compiled(each) for each in self.start]

        def init_one(key):
            draw_key, choice_key, half_key = jax.random.split(key, 3)
            drawn = variation.random_program(
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

    @property
    def rule(self) -> Rule:
        """The programs as functions of named inputs."""

        def evaluate(meta_params, inputs, number):
            program = meta_params["codes"][number], meta_params["constants"][number]
            values = [jnp.float32(inputs[name]) for name in self.names]
            return interpreter.evaluate(self.operations, program, values)

        return Rule(frozenset(self.names), evaluate, self.gives, self.hyperparams, forward=True)

    def fingerprint(self, meta_params: PlainMapping) -> jax.Array:
        """Return the outputs of programs on the batch of their slot, [programs * POINTS]."""
        language = self.known
        if language.arguments and language is LANGUAGES.get(self.slot):
            return language.slopes(self.apply, meta_params)
        inputs, evaluate = language.batch(), self.rule.evaluate
        return jnp.concatenate([evaluate(meta_params, inputs, i) for i in range(self.count)])

    def programs(self) -> Programs:
        """Return how programs behave, for strategies that vary them."""
        return Programs(self.depth, self.fingerprint, self.text)
