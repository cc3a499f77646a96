"""A small language for formulas: text in, a function of arrays out, without executing the text.

    expression = parse("tanh(error / c0) + where(error > 0, c1, 0)", ["error"], {"c0": 1, "c1": 2})
    expression.evaluate({"error": errors, "c0": 0.5, "c1": 0.1})

It has numbers, names, `+ - * / **`, the functions in `FUNCTIONS`, and comparisons as the first
argument of `where`. Python's parser reads the text; everything else is refused, and `evaluate`
walks the remaining tree.

    program = compiled(parse("tanh(error)**2 + 0.5", ["error"], {}), ["error"], length=8)
    program_text(*program, ["error"])                           # "tanh(error) ** 2 + 0.5"

A program (`metaevo.evolution.postfix`) is an expression as an array of codes. Its text is what it
computes, as long as no operation meets a limit (`metaevo.parts.interpreter`).
"""

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from metaevo.config import PlainMapping, of_value, show
from metaevo.evolution.postfix import BLANK, CONSTANT, INPUT, OPERATIONS, code_of

MAX_LETTERS = 2000
MAX_NODES = 200
MAX_DEPTH = 40
MAX_POWER = 16
"""Whole exponents up to it are products, which are also defined for negative numbers."""


FUNCTIONS = {
    **dict.fromkeys(("abs", "sign", "log1p", "exp", "tanh", "sqrt"), 1),
    **dict.fromkeys(("minimum", "maximum"), 2),
    **dict.fromkeys(("clip", "where"), 3),
}
"""Number of arguments of each function; they are the functions of NumPy and JAX."""
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_LANGUAGE = (
    f"a formula has numbers, names, + - * / **, comparisons in where(), and {', '.join(FUNCTIONS)}"
)


@dataclass(frozen=True)
class Expression:
    """A formula that has been read."""

    tree: ast.expr
    """made of what `parse` allows"""

    @property
    def names(self) -> frozenset[str]:
        """Names of the inputs."""
        return frozenset(_names(self.tree))

    @property
    def length(self) -> int:
        """Total number of its numbers, names (of functions too) and operators, without signs."""
        counted = ast.Name | ast.Constant | ast.BinOp | ast.Compare
        return sum(isinstance(each, counted) for each in ast.walk(self.tree))

    def evaluate(self, values: PlainMapping) -> Any:
        """Return the formula's value, in float32, from numbers or arrays of all `names`."""
        return _value(self.tree, values, jnp)

    def text(self, numbers: Mapping[str, float] | None = None) -> str:
        """Return it as it can be read again, with `numbers` of four digits for some names."""
        copy = ast.parse(ast.unparse(self.tree), mode="eval").body
        return ast.unparse(_Written(numbers or {}).visit(copy))


def parse(text: str, names: Collection[str], numbers: Mapping[str, float]) -> Expression:
    """Read a formula.

    Args:
        text: in the language of this module.
        names: that it may look at.
        numbers: names of constants, with their initial values.

    Raises:
        ValueError: in one line, if the text is not a formula, has unknown names, or has a constant
            part without a finite value, such as a division by zero; or if the name of a constant
            is not free.
    """
    for name in numbers:
        if not (isinstance(name, str) and name.isidentifier()) or name in (*names, *FUNCTIONS):
            raise ValueError(f"constants: {show(name)} must be a name that is not taken yet")
    shown = f"expression = {show(text)}"
    if len(text) > MAX_LETTERS:
        raise ValueError(f"{shown}: must have at most {MAX_LETTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such text is refused below anyway
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
        raise ValueError(f"{shown}: is no formula{why}; {_LANGUAGE}") from None
    try:
        if sum(1 for _ in ast.walk(tree)) > 3 * MAX_NODES or _depth(tree) > MAX_DEPTH:
            raise ValueError(f"is too long or too deep (at most {MAX_DEPTH} levels)")
        _check(tree, [*names, *numbers])
        _fold(tree, numbers)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None
    return Expression(tree)


def _check(tree: ast.AST, known: Collection[str], *, condition: bool = False) -> None:
    """Refuse whatever is not a part of the language."""
    match tree:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name):
            if name not in known:
                raise ValueError(_unknown(name, known))
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            parts = [tree.operand]
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow()):
            parts = [tree.left, tree.right]
        case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()]) if condition:
            parts = [tree.left, *tree.comparators]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            if name not in FUNCTIONS:
                raise ValueError(_unknown(name, FUNCTIONS))
            if len(parts) != FUNCTIONS[name]:
                raise ValueError(f"{name} takes {FUNCTIONS[name]} arguments")
            if name == "where":
                if not isinstance(parts[0], ast.Compare):
                    raise ValueError("the first argument of where must be a comparison, as x > 0")
                _check(parts[0], known, condition=True)
                parts = parts[1:]
        case _:
            raise ValueError(f"{show(ast.unparse(tree))} is not allowed; {_LANGUAGE}")
    for part in parts:
        _check(part, known)


def _unknown(name: str, known: Collection[str]) -> str:
    return f"unknown name {show(name)}{of_value(name, known)}; known: {', '.join(known)}"


def _fold(tree: ast.expr, numbers: Mapping[str, float]) -> None:
    """Raise an error for constant parts without a finite value.

    Such a part is a division by zero, a root of a negative number, a number out of float32's range.
    """
    for part in ast.iter_child_nodes(tree):
        if isinstance(part, ast.expr) and not (isinstance(tree, ast.Call) and part is tree.func):
            _fold(part, numbers)
    match tree:
        case ast.BinOp(op=ast.Div(), right=divisor) if _constant(divisor, numbers) == 0:
            raise ValueError(f"division by zero in {show(ast.unparse(tree))}")
    if not np.isfinite(_constant(tree, numbers)):
        raise ValueError(f"{show(ast.unparse(tree))} is no finite number")


def _constant(tree: ast.expr, numbers: Mapping[str, float]) -> float:
    """The value of a part that looks at constants only; of any other one, 1."""
    if not set(_names(tree)) <= set(numbers):
        return 1.0
    with np.errstate(all="ignore"):
        return float(_value(tree, numbers, np))


def _value(tree: ast.expr, values: PlainMapping, library: Any) -> Any:
    """The value of a part, in float32, by NumPy or JAX."""
    match tree:
        case ast.Constant(value=int() | float() as value):
            return _float32(value)
        case ast.Name(id=name):
            return library.asarray(values[name], np.float32)
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, values, library))
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            base, whole = _value(left, values, library), _whole(right)
            return base**whole if whole else library.power(base, _value(right, values, library))
        case (
            ast.BinOp(op=op, left=left, right=right)
            | ast.Compare(ops=[op], left=left, comparators=[right])
        ):
            pair = _value(left, values, library), _value(right, values, library)
            return _OPERATORS[type(op)](*pair)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return getattr(library, name)(*(_value(each, values, library) for each in arguments))
    raise AssertionError(ast.dump(tree))  # `_check` has refused it


def _whole(exponent: ast.expr) -> int:
    """The whole number that an exponent is written as, as in x ** 3; 0 for any other one."""
    match exponent:
        case ast.Constant(value=int() | float() as value) if value in range(1, MAX_POWER + 1):
            return int(value)
    return 0


def _float32(number: int | float) -> np.float32:
    with np.errstate(over="ignore"):
        try:
            return np.float32(number)
        except OverflowError:  # an int beyond float64
            return np.float32(np.inf)


def _names(tree: ast.AST) -> list[str]:
    functions = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    return [
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and id(each) not in functions
    ]


def _depth(tree: ast.AST) -> int:
    """The levels of a tree, found without recursion."""
    level, depth = [tree], 0
    while level:
        level = [part for each in level for part in ast.iter_child_nodes(each)]
        depth += 1
    return depth


class _Written(ast.NodeTransformer):
    """Writes numbers in the place of names."""

    def __init__(self, numbers: Mapping[str, float]):
        self.numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.numbers:
            return node
        return _number(f"{self.numbers[node.id]:.4g}")


def _number(text: str) -> ast.expr:
    """Return a number as an expression; a program's float32 has the fewest digits that are read."""
    value = float(text)
    size = ast.Constant(abs(value))
    return ast.UnaryOp(ast.USub(), size) if np.signbit(value) else size


# --- Programs: expressions as codes -------------------------------------------------------------

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_SIGNS = {name: operator for operator, name in _BINARY.items()}
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


def program_text(codes: np.ndarray, constants: np.ndarray, inputs: Sequence[str]) -> str:
    """Return a valid program [L] as an expression that can be read again."""
    names, stack = list(OPERATIONS), []
    for code, constant in zip(codes.tolist(), constants, strict=True):
        if code == BLANK:
            break
        if code == CONSTANT:
            stack.append(_number(str(constant)))
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
    if name in _SIGNS:
        left, right = arguments
        return ast.BinOp(left, _SIGNS[name](), right)
    if name == "negate":
        return ast.UnaryOp(ast.USub(), arguments[0])
    if name == "square":
        return ast.BinOp(arguments[0], ast.Pow(), ast.Constant(2))
    if name == "where":
        a, b, *chosen = arguments
        arguments = [ast.Compare(a, [ast.Gt()], [b]), *chosen]
    assert name in FUNCTIONS
    return ast.Call(ast.Name(name), arguments, [])
