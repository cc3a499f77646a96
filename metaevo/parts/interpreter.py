"""Evaluate programs, which are data: one compiled training serves all programs.

    value = evaluate(operations, (codes, constants), inputs)

A program (`metaevo.evolution.postfix`) first becomes a table of rows, one for each operation, with
the places of its operands among the inputs and the results of earlier rows. The table depends
on the program only, so XLA computes it before the loops of a training. A row then costs the
computation of every operation in the language and a choice among them, since under `jax.vmap` other
agents have other operations there. The loop ends after the longest program of a batch.

The derivative by the inputs is carried along with the value (forward mode), so nothing is stored
for a pass backwards.

Results and derivatives are finite: divisors are at least SMALL in size, sqrt and log1p take their
argument from where they are defined, and everything is limited to +-LIMIT.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import postfix
from metaevo.evolution.postfix import Program

LIMIT, SMALL = 1e9, 1e-9
LOWEST = np.float32(-1.0 + 1e-6)
"""Least argument of log1p."""


def _divisor(b: jax.Array) -> jax.Array:
    return jnp.where(jnp.abs(b) < SMALL, jnp.where(b < 0, -SMALL, SMALL), b)


def _sqrt(a: jax.Array) -> jax.Array:
    positive = a > SMALL**2
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, a, 1.0)), 0.0)


def _power(a: jax.Array, b: jax.Array) -> jax.Array:
    """A power of |a|; with the sign of a for odd whole exponents."""
    size = jnp.power(jnp.maximum(jnp.abs(a), SMALL**2), b)
    return jnp.where((a < 0) & (jnp.mod(b, 2.0) == 1.0), -size, size)


INSTRUCTIONS: dict[str, Callable[..., jax.Array]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / _divisor(b),
    "minimum": jnp.minimum,
    "maximum": jnp.maximum,
    "where": lambda a, b, x, y: jnp.where(a > b, x, y),
    "clip": lambda a, low, high: jnp.minimum(jnp.maximum(a, low), high),
    "negate": lambda a: -a,
    "abs": jnp.abs,
    "sign": jnp.sign,
    "square": lambda a: a * a,
    "tanh": jnp.tanh,
    "exp": lambda a: jnp.exp(jnp.minimum(a, 25.0)),
    "log1p": lambda a: jnp.log1p(jnp.maximum(a, LOWEST)),
    "sqrt": _sqrt,
    "power": _power,
}
"""What a row computes from its operands, by operation."""


class Rows(NamedTuple):
    """The operations of a program, at most L, in their order."""

    instruction: jax.Array
    """[L] number of the operation"""
    places: jax.Array
    """[operands, L] of the operands in the table of inputs and results; -1 for a constant"""
    constants: jax.Array
    """[operands, L]"""


def rows_of(
    operations: tuple[str, ...], codes: jax.Array, constants: jax.Array, inputs: int
) -> tuple[Rows, jax.Array, tuple[jax.Array, jax.Array]]:
    """Return the rows of one program [L], their number, and place and constant of its value.

    The value of what is no program is NaN.
    """
    numbers = np.zeros(len(postfix.ARITIES), np.int32)
    for number, name in enumerate(operations):
        numbers[postfix.code_of(name)] = number
    is_operation = (codes > postfix.BLANK) & (codes < postfix.CONSTANT)
    known = jnp.isin(codes, jnp.array([postfix.code_of(name) for name in operations], jnp.int32))
    ends = jnp.cumsum(is_operation)
    place = jnp.where(is_operation, inputs + ends - 1, codes - postfix.INPUT)
    place = jnp.clip(place, 0, inputs + len(codes) - 1)  # whatever the codes are
    place = jnp.where(codes == postfix.CONSTANT, -1, place)

    node = jnp.sum(ends <= jnp.arange(len(codes))[:, None], axis=1)
    node = jnp.minimum(node, len(codes) - 1)
    most = max((postfix.OPERATIONS[name] for name in operations), default=1)
    operands = postfix.operands(codes)[node, :most].T
    rows = Rows(jnp.asarray(numbers)[codes[node]], place[operands], constants[operands])
    is_program = jnp.all(known | ~is_operation) & postfix.is_valid(codes, inputs)
    last = jnp.maximum(postfix.length(codes) - 1, 0)
    value = jnp.where(is_program, place[last], -1), jnp.where(is_program, constants[last], jnp.nan)
    return rows, jnp.where(is_program, ends[-1], 0), value


@functools.cache
def _interpreter(operations: tuple[str, ...], slopes: bool) -> Callable[..., Any]:
    """Return `(codes [N, L], constants [N, L], inputs, their slopes) -> value, slope`.

    Inputs, slopes, value and slope are [N, S], for S samples of N programs. Batched programs become
    more programs, and batched inputs become more samples, so all arithmetic is on [N, S].
    """

    def run(codes, constants, inputs, input_slopes):
        table_of = functools.partial(rows_of, operations, inputs=len(inputs))
        table = jax.vmap(table_of)(codes, constants)
        return _run(operations, *table, inputs, input_slopes if slopes else None)

    def batched(size, in_batched, codes, constants, *samples):
        count, more = codes.shape[-2], in_batched[0] or in_batched[1]

        def of_program(leaf, has_axis):
            leaf = leaf if has_axis or not more else jnp.broadcast_to(leaf, (size, *leaf.shape))
            return leaf.reshape(-1, leaf.shape[-1])

        def of_samples(leaf, has_axis):
            leaf = leaf if has_axis else jnp.broadcast_to(leaf, (size, *leaf.shape))
            if more:
                return leaf.reshape(size * count, -1)
            return jnp.moveaxis(leaf, 0, 1).reshape(count, -1)

        def split(leaf):
            if more:
                return leaf.reshape(size, count, -1)
            return jnp.moveaxis(leaf.reshape(count, size, -1), 1, 0)

        program = map(of_program, (codes, constants), in_batched)
        found = mapped(*program, *jax.tree.map(of_samples, samples, tuple(in_batched[2:])))
        return jax.tree.map(split, found), jax.tree.map(lambda leaf: True, found)

    mapped = jax.custom_batching.custom_vmap(run)
    mapped.def_vmap(batched)
    return mapped


def _run(
    operations: tuple[str, ...],
    rows: Rows,
    counts: jax.Array,
    result: tuple[jax.Array, jax.Array],
    inputs: Sequence[jax.Array],
    input_slopes: Sequence[jax.Array] | None,
) -> tuple[jax.Array, jax.Array]:
    """Evaluate N programs at S samples each; without slopes, the second result is zero."""
    chosen = [(INSTRUCTIONS[name], postfix.OPERATIONS[name]) for name in operations]
    programs = jnp.arange(len(counts))
    length = rows.instruction.shape[1]
    empty = jnp.zeros((length, *inputs[0].shape), inputs[0].dtype)
    table = [jnp.moveaxis(each, -1, 0) for each in rows]

    def operand(values, place, constant):
        found = values.at[jnp.maximum(place, 0), programs].get(mode="promise_in_bounds")
        return jnp.where(place[:, None] < 0, constant[:, None], found)

    def choose(index, options):
        index = jnp.broadcast_to(index[:, None], options[0].shape)
        return jax.lax.select_n(index, *options) if len(options) > 1 else options[0]

    def limited_at(rows, row, place):
        row = jnp.clip(row, -LIMIT, LIMIT)
        return jax.lax.dynamic_update_index_in_dim(rows, row, place, 0)

    def row(index, carry):
        values, slopes = carry
        instruction, places, constants = (
            jax.lax.dynamic_index_in_dim(each, index, keepdims=False) for each in table
        )
        pairs = list(zip(places.T, constants.T, strict=True))
        operands = [operand(values, *pair) for pair in pairs]
        value = choose(instruction, [each(*operands[:count]) for each, count in chosen])
        place = len(inputs) + index
        values = limited_at(values, value, place)
        if slopes is not None:
            along = [operand(slopes, each, jnp.zeros_like(zero)) for each, zero in pairs]
            operands, along = jax.lax.optimization_barrier((operands, along))
            found = [jax.jvp(each, operands[:count], along[:count])[1] for each, count in chosen]
            slope = jnp.where(jnp.abs(value) >= LIMIT, 0.0, choose(instruction, found))
            slopes = limited_at(slopes, slope, place)
        return values, slopes

    start = jnp.concatenate([jnp.clip(jnp.stack(inputs), -LIMIT, LIMIT), empty])
    slopes = None if input_slopes is None else jnp.concatenate([jnp.stack(input_slopes), empty])
    if operations:
        start, slopes = jax.lax.fori_loop(0, jnp.max(counts), row, (start, slopes))
    value = jnp.clip(operand(start, *result), -LIMIT, LIMIT)  # of a program without operations
    if slopes is None:
        return value, jnp.zeros_like(value)
    slope = operand(slopes, result[0], jnp.zeros_like(result[1]))
    return value, jnp.where(jnp.abs(value) >= LIMIT, 0.0, slope)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def evaluate(
    operations: tuple[str, ...], program: Program, inputs: Sequence[jax.Array]
) -> jax.Array:
    """Return a program's value at inputs, which are broadcast to one shape.

    Its derivative by the inputs is carried along with the value (forward mode only).
    """
    return _both(operations, program, inputs, ())[0]


@evaluate.defjvp
def _(operations, primals, tangents):
    program, inputs = primals
    return _both(operations, program, inputs, tangents[1])


def _both(
    operations: tuple[str, ...],
    program: Program,
    inputs: Sequence[jax.Array],
    slopes: Sequence[jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Return a program's value and, if the inputs have slopes, its own slope."""
    shape = jnp.broadcast_shapes(*map(jnp.shape, inputs))

    def flat(leaves):
        return tuple(jnp.broadcast_to(jnp.float32(each), shape).reshape(1, -1) for each in leaves)

    codes, constants = program
    run = _interpreter(operations, bool(slopes))
    value, slope = run(codes[None], constants[None], flat(inputs), flat(slopes))
    return value.reshape(shape), slope.reshape(shape)
