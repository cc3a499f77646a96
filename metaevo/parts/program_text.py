"""Programs as text and text as programs, in the language of formulas.

    program = compiled(parse("tanh(error)**2 + 0.5", ["error"], {}), ["error"], length=8)
    text(*program, ["error"])                                   # "tanh(error) ** 2 + 0.5"

The text is what the program computes, as long as no operation meets a limit
(`metaevo.parts.instructions`).
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from metaevo.evolution.postfix import BLANK, CONSTANT, INPUT, OPERATIONS, code_of
from metaevo.parts.expressions import FUNCTIONS, MAX_POWER, Expression

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_OPERATORS = {name: operator for operator, name in _BINARY.items()}
_SWAPPED = {ast.Gt: False, ast.Lt: True, ast.GtE: True, ast.LtE: False}
"""Whether a comparison is b > a, where a > b is the operation's."""
_NEGATED = {ast.Gt: False, ast.Lt: False, ast.GtE: True, ast.LtE: True}

Item = tuple[int, float]
"""A code and its constant."""


def compiled(
    expression: Expression,
    inputs: Sequence[str],
    *,
    length: int,
    operations: Collection[str] = tuple(OPERATIONS),
    numbers: Mapping[str, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return codes [length] and constants [length] of an expression.

    Whole powers become squares and products. `numbers` are the values of names that are no inputs.

    Raises:
        ValueError: if it is too long, or needs an operation that is not among `operations`.
    """
    items = list(_items(expression.tree, inputs, numbers or {}))
    used = {name for name in OPERATIONS for code, _ in items if code == code_of(name)}
    if missing := sorted(used - set(operations)):
        raise ValueError(f"needs {', '.join(missing)}, not among operations")
    if len(items) > length:
        raise ValueError(f"has {len(items)} codes; at most {length} (length)")
    codes, constants = np.full(length, BLANK, np.int32), np.zeros(length, np.float32)
    for place, item in enumerate(items):
        codes[place], constants[place] = item
    return codes, constants


def _items(tree: ast.expr, inputs: Sequence[str], numbers: Mapping[str, float]) -> Iterator[Item]:
    """Yield a part of an expression in postfix order."""

    def joined(operation: str, *parts: ast.expr) -> Iterator[Item]:
        for part in parts:
            yield from _items(part, inputs, numbers)
        yield code_of(operation), 0.0

    match tree:
        case ast.Constant(value=int() | float() as value):
            yield CONSTANT, float(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            yield CONSTANT, -float(value)
        case ast.Name(id=name) if name in numbers:
            yield CONSTANT, float(numbers[name])
        case ast.Name(id=name):
            yield INPUT + inputs.index(name), 0.0
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            yield from _items(operand, inputs, numbers)
        case ast.UnaryOp(operand=operand):
            yield from joined("negate", operand)
        case ast.BinOp(
            left=left, op=ast.Pow(), right=ast.Constant(value=int() | float() as value)
        ) if value in range(1, MAX_POWER + 1):
            yield from _whole_power(list(_items(left, inputs, numbers)), int(value))
        case ast.BinOp(left=left, op=op, right=right):
            yield from joined(_BINARY[type(op)], left, right)
        case ast.Call(func=ast.Name(id="where"), args=[ast.Compare() as compared, first, second]):
            operator, pair = type(compared.ops[0]), [compared.left, compared.comparators[0]]
            if _SWAPPED[operator]:
                pair.reverse()
            if _NEGATED[operator]:
                first, second = second, first
            yield from joined("where", *pair, first, second)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            yield from joined(name, *arguments)


def _whole_power(base: list[Item], exponent: int) -> Iterator[Item]:
    """Yield base ** exponent, by repeated squaring."""
    if exponent == 1:
        yield from base
        return
    yield from _whole_power(base, exponent // 2)
    yield code_of("square"), 0.0
    if exponent % 2:
        yield from base
        yield code_of("multiply"), 0.0


def text(codes: np.ndarray, constants: np.ndarray, inputs: Sequence[str]) -> str:
    """Return a valid program [L] as an expression that can be read again."""
    names, stack = list(OPERATIONS), []
    for code, constant in zip(codes.tolist(), constants, strict=True):
        if code == BLANK:
            break
        if code == CONSTANT:
            stack.append(_number(constant))
        elif code >= INPUT:
            stack.append(ast.Name(inputs[code - INPUT]))
        else:
            name = names[code - 1]
            arguments = stack[-OPERATIONS[name] :]
            del stack[-OPERATIONS[name] :]
            stack.append(_tree(name, arguments))
    (tree,) = stack
    return ast.unparse(tree)


def _tree(name: str, arguments: list[ast.expr]) -> ast.expr:
    """Return an operation of expressions as an expression."""
    if name in _OPERATORS:
        left, right = arguments
        return ast.BinOp(left, _OPERATORS[name](), right)
    if name == "negate":
        return ast.UnaryOp(ast.USub(), arguments[0])
    if name == "square":
        return ast.BinOp(arguments[0], ast.Pow(), ast.Constant(2))
    if name == "where":
        a, b, *chosen = arguments
        arguments = [ast.Compare(a, [ast.Gt()], [b]), *chosen]
    assert name in FUNCTIONS
    return ast.Call(ast.Name(name), arguments, [])


def _number(constant: np.float32) -> ast.expr:
    """Return a number with the fewest digits that are read as this float32."""
    size = ast.Constant(float(str(abs(constant))))
    return ast.UnaryOp(ast.USub(), size) if np.signbit(constant) else size
