"""Evaluate programs, which are data: one compiled training serves all programs.

    value = evaluate(operations, (codes, constants), inputs)
    loss = differentiable(operations, program_of, inputs_of)        # (x, others) -> number

A program (`metaevo.evolution.postfix`) first becomes a table of rows, one for each operation, with
the places of its two operands among the inputs and the results of earlier rows. The table depends
on the program only, so XLA computes it before the loops of a training. A row then costs the
computation of every operation in the language and a choice among them, since under `jax.vmap` other
agents have other operations there. The loop ends after the longest program of a batch.

The slope of a loss is carried along with its value (forward mode), so nothing is stored for a pass
backwards.

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


def _sqrt(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    positive = a > SMALL**2
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, a, 1.0)), 0.0)


def _power(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """A power of |a|; with the sign of a for odd whole exponents."""
    size = jnp.power(jnp.maximum(jnp.abs(a), SMALL**2), b)
    return jnp.where((a < 0) & (jnp.mod(b, 2.0) == 1.0), -size, size)


INSTRUCTIONS: dict[str, Callable[..., jax.Array]] = {
    "add": lambda a, b, c: a + b,
    "subtract": lambda a, b, c: a - b,
    "multiply": lambda a, b, c: a * b,
    "divide": lambda a, b, c: a / _divisor(b),
    "minimum": lambda a, b, c: jnp.minimum(a, b),
    "maximum": lambda a, b, c: jnp.maximum(a, b),
    "greater": lambda a, b, c: (a > b).astype(a.dtype),
    "choose": lambda a, b, c: jnp.where(c > 0, a, b),
    "negate": lambda a, b, c: -a,
    "abs": lambda a, b, c: jnp.abs(a),
    "sign": lambda a, b, c: jnp.sign(a),
    "square": lambda a, b, c: a * a,
    "tanh": lambda a, b, c: jnp.tanh(a),
    "exp": lambda a, b, c: jnp.exp(jnp.minimum(a, 25.0)),
    "log1p": lambda a, b, c: jnp.log1p(jnp.maximum(a, LOWEST)),
    "sqrt": _sqrt,
    "power": _power,
}
"""What a row computes, `(a, b, c) -> result`, from its operands a and b; c is the result of the row
before."""
TWO_ROWS = {"where": ("greater", "choose"), "clip": ("maximum", "minimum")}
"""Operations of two rows; the second sees the result of the first."""


@functools.cache
def instructions_of(operations: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instructions that some operations need; every language can add."""
    names = ["add"]
    for name in operations:
        names += TWO_ROWS.get(name, (name,))
    return tuple(dict.fromkeys(names))


class Rows(NamedTuple):
    """A program of at most R rows, each field [R]."""

    instruction: jax.Array
    """number of the instruction"""
    left: jax.Array
    """place of the operand a in the table of inputs and results; -1 for a constant"""
    right: jax.Array
    left_constant: jax.Array
    right_constant: jax.Array


def rows_of(
    operations: tuple[str, ...], codes: jax.Array, constants: jax.Array, inputs: int
) -> tuple[Rows, Rows, jax.Array]:
    """Return the table of one program [L], its first row, and the number of rows.

    The first row of the table is only right if there are operations. Of a program without, it adds
    0 to the only value, and the value of what is no program is NaN.
    """
    names = instructions_of(operations)
    firsts, seconds, widths = np.zeros((3, len(postfix.ARITIES)), np.int32)
    for name in operations:
        code, both = postfix.code_of(name), TWO_ROWS.get(name, (name,))
        widths[code] = len(both)
        firsts[code], seconds[code] = names.index(both[0]), names.index(both[-1])
    width = jnp.asarray(widths)[codes]
    ends = jnp.cumsum(width)
    is_operation = (codes > postfix.BLANK) & (codes < postfix.CONSTANT)
    place = jnp.where(is_operation, inputs + ends - 1, codes - postfix.INPUT)
    place = jnp.clip(place, 0, inputs + len(codes) - 1)  # whatever the codes are
    place = jnp.where(codes == postfix.CONSTANT, -1, place)

    row = jnp.arange(len(codes))
    node = jnp.minimum(jnp.sum(ends <= row[:, None], axis=1), len(codes) - 1)
    second = (width[node] == 2) & (row == ends[node] - 1)
    clips = second & (codes[node] == postfix.code_of("clip"))
    operand = postfix.operands(codes)[node]
    left = jnp.where(second & ~clips, operand[:, 2], operand[:, 0])
    right = jnp.where(second, jnp.where(clips, operand[:, 2], operand[:, 3]), operand[:, 1])
    rows = Rows(
        jnp.where(second, jnp.asarray(seconds)[codes[node]], jnp.asarray(firsts)[codes[node]]),
        jnp.where(clips, inputs + row - 1, place[left]),
        place[right],
        constants[left],
        constants[right],
    )
    known = jnp.all((width > 0) | ~is_operation) & postfix.is_valid(codes, inputs)
    only = Rows(
        jnp.int32(names.index("add")),
        jnp.where(known, place[0], -1),
        jnp.int32(-1),
        jnp.where(known, constants[0], jnp.nan),
        jnp.float32(0.0),
    )
    alone = (ends[-1] == 0) | ~known
    first = Rows(*(jnp.where(alone, own, each[0]) for own, each in zip(only, rows, strict=True)))
    return rows, first, jnp.where(alone, 1, ends[-1])


def _table(rows: Rows, first: Rows) -> list[jax.Array]:
    """Return the fields of tables [N, R] with their first rows [N], row by row: [R * N].

    XLA computes it before the loops of a training, unlike a mere transposition; and a flat array
    has one layout, so it is not copied in every step.
    """
    count, length = rows.left.shape
    is_first = jnp.arange(length * count) < count
    return [
        jnp.where(is_first, jnp.tile(own, length), jnp.moveaxis(each, 0, 1).reshape(-1))
        for each, own in zip(rows, first, strict=True)
    ]


@functools.cache
def _interpreter(operations: tuple[str, ...], slopes: bool) -> Callable[..., Any]:
    """Return `(codes [N, L], constants [N, L], inputs, their slopes) -> value, slope`.

    Inputs, slopes, value and slope are [N, S], for S samples of N programs. Batched programs become
    more programs, and batched inputs become more samples, so all arithmetic is on [N, S].
    """

    def run(codes, constants, inputs, input_slopes):
        table_of = functools.partial(rows_of, operations, inputs=len(inputs))
        rows, first, counts = jax.vmap(table_of)(codes, constants)
        table = _table(rows, first)
        return _run(operations, table, counts, inputs, input_slopes if slopes else None)

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
    table: Sequence[jax.Array],
    counts: jax.Array,
    inputs: Sequence[jax.Array],
    input_slopes: Sequence[jax.Array] | None,
) -> tuple[jax.Array, jax.Array]:
    """Evaluate N programs at S samples each; without slopes, the second result is zero."""
    chosen = [INSTRUCTIONS[name] for name in instructions_of(operations)]
    count = len(counts)
    programs = jnp.arange(count)
    empty = jnp.zeros((len(table[0]) // count, *inputs[0].shape), inputs[0].dtype)

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
        instruction, left, right, *constants = (
            jax.lax.dynamic_slice(each, (index * count,), (count,)) for each in table
        )
        a = operand(values, left, constants[0])
        b = operand(values, right, constants[1])
        c = jax.lax.dynamic_index_in_dim(values, len(inputs) + index - 1, keepdims=False)
        value = choose(instruction, [each(a, b, c) for each in chosen])
        place = len(inputs) + index
        values = limited_at(values, value, place)
        if slopes is not None:
            zero = jnp.zeros(count, a.dtype)
            along = operand(slopes, left, zero), operand(slopes, right, zero)
            a, b, c, along = jax.lax.optimization_barrier((a, b, c, along))
            found = [jax.jvp(functools.partial(each, c=c), (a, b), along)[1] for each in chosen]
            slope = jnp.where(jnp.abs(value) >= LIMIT, 0.0, choose(instruction, found))
            slopes = limited_at(slopes, slope, place)
        return values, slopes

    start = jnp.concatenate([jnp.clip(jnp.stack(inputs), -LIMIT, LIMIT), empty])
    slopes = None if input_slopes is None else jnp.concatenate([jnp.stack(input_slopes), empty])
    values, slopes = jax.lax.fori_loop(0, jnp.max(counts), row, (start, slopes))
    last = len(inputs) + counts - 1, programs
    value = values.at[last].get(mode="promise_in_bounds")
    if slopes is None:
        return value, jnp.zeros_like(value)
    return value, slopes.at[last].get(mode="promise_in_bounds")


def evaluate(
    operations: tuple[str, ...], program: Program, inputs: Sequence[jax.Array]
) -> jax.Array:
    """Return a program's value at inputs, which are broadcast to one shape."""
    return _both(operations, program, inputs, ())[0]


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


def differentiable(
    operations: tuple[str, ...],
    program_of: Callable[[Any], Program],
    inputs_of: Callable[[jax.Array, Any], Sequence[jax.Array]],
) -> Callable[[jax.Array, Any], jax.Array]:
    """Return `(x, others) -> number`, which can be differentiated once, by x only.

    Args:
        operations: that programs may have.
        program_of: returns the program, from others.
        inputs_of: returns the program's inputs, from x and others.
    """

    @jax.custom_jvp
    def value(x, others):
        return evaluate(operations, program_of(others), inputs_of(x, others))

    @value.defjvp
    def derivative(primals, tangents):
        x, others = primals
        inputs, slopes = jax.jvp(lambda x: inputs_of(x, others), (x,), (jnp.ones_like(x),))
        found, slope = _both(operations, program_of(others), inputs, slopes)
        return found, slope * tangents[0]

    return value
