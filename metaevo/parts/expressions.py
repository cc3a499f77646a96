"""A small language for formulas: text in, a function of arrays out, without executing the text.

    expression = parse("tanh(error / c0) + where(error > 0, c1, 0)", ["error"], {"c0": 1, "c1": 2})
    expression.evaluate({"error": errors, "c0": 0.5, "c1": 0.1})

It has numbers, names, `+ - * / **`, the functions in `FUNCTIONS`, and comparisons as the first
argument of `where`. Python's parser reads the text, and `_read` makes a `Tree` of what it allows.

    program = compiled(parse("tanh(error)**2 + 0.5", ["error"], {}), ["error"], length=8)
    program_text(*program, ["error"])                           # "tanh(error) ** 2 + 0.5"

A program (`metaevo.evolution.postfix`) is a tree as an array of codes. Its text is what it
computes, as long as no operation meets a limit (`metaevo.parts.interpreter`).
"""

import ast
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
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

Tree = int | float | str | tuple[Any, ...]
"""A number, a name, or the name of one of `OPERATIONS` and the trees of its operands."""
_SIGNS: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "subtract": ast.Sub,
    "multiply": ast.Mult,
    "divide": ast.Div,
    "power": ast.Pow,
}
_OPERATORS = {sign: name for name, sign in _SIGNS.items()}
_ORDERS: dict[type[ast.cmpop], tuple[int, ...]] = {
    ast.Gt: (0, 1, 2, 3),
    ast.Lt: (1, 0, 2, 3),
    ast.GtE: (1, 0, 3, 2),
    ast.LtE: (0, 1, 3, 2),
}
"""Of a, b, x, y in where(a > b, x, y): the operation has no other comparison. So >= chooses as <
does where a number is NaN."""
FUNCTIONS = {
    name: 3 if name == "where" else operands
    for name, operands in OPERATIONS.items()
    if name not in (*_SIGNS, "negate", "square")
}
"""Number of arguments of each function; they are the functions of NumPy and JAX."""
_LANGUAGE = (
    f"a formula has numbers, names, + - * / **, comparisons in where(), and {', '.join(FUNCTIONS)}"
)


@dataclass(frozen=True)
class Expression:
    """A formula that has been read."""

    tree: Tree

    @property
    def names(self) -> frozenset[str]:
        """Names of the inputs."""
        return frozenset(part for part in _parts(self.tree) if isinstance(part, str))

    @property
    def length(self) -> int:
        """Total number of its numbers, names (of functions too) and operators, without signs."""
        sizes = {"negate": 0, "where": 2}
        parts = [part[0] if isinstance(part, tuple) else "" for part in _parts(self.tree)]
        return sum(sizes.get(name, 1) for name in parts)

    def evaluate(self, values: PlainMapping) -> Any:
        """Return the formula's value, in float32, from numbers or arrays of all `names`."""
        return _value(self.tree, values, jnp)

    def text(self, numbers: Mapping[str, float] | None = None) -> str:
        """Return it as it can be read again, with `numbers` of four digits for some names."""
        return ast.unparse(_syntax(self.tree, numbers or {}))


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
            node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
        raise ValueError(f"{shown}: is no formula{why}; {_LANGUAGE}") from None
    try:
        tree = _read(node, [*names, *numbers])
        if sum(1 for _ in _parts(tree)) > MAX_NODES:
            raise ValueError(f"is too long (at most {MAX_NODES} numbers, names and operations)")
        _check_constants(tree, numbers)
    except RecursionError:
        raise ValueError(f"{shown}: is too deep (at most {MAX_DEPTH} levels)") from None
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None
    return Expression(tree)


def _read(node: ast.AST, known: Collection[str], levels: int = MAX_DEPTH) -> Tree:
    """Return a part of Python's tree as ours; refuse whatever is not in the language."""
    if not levels:
        raise ValueError(f"is too deep (at most {MAX_DEPTH} levels)")

    def read(*nodes: ast.AST) -> list[Tree]:
        return [_read(each, known, levels - 1) for each in nodes]

    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return value  # type: ignore[return-value]
        case ast.Name(id=name):
            if name not in known:
                raise ValueError(_unknown(name, known))
            return name
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            (part,) = read(operand)
            if isinstance(sign, ast.UAdd):
                return part
            return -part if isinstance(part, int | float) else ("negate", part)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)], *read(left, right)
        case ast.Call(func=ast.Name(id="where"), args=[condition, first, second], keywords=[]):
            match condition:
                case ast.Compare(ops=[compared], comparators=[right]) if type(compared) in _ORDERS:
                    parts = read(condition.left, right, first, second)
                    return "where", *(parts[place] for place in _ORDERS[type(compared)])
            raise ValueError("the first argument of where must be a comparison, as x > 0")
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in FUNCTIONS:
                raise ValueError(_unknown(name, FUNCTIONS))
            if len(arguments) != FUNCTIONS[name]:
                raise ValueError(f"{name} takes {FUNCTIONS[name]} arguments")
            return name, *read(*arguments)
    raise ValueError(f"{show(ast.unparse(node))} is not allowed; {_LANGUAGE}")


def _unknown(name: str, known: Collection[str]) -> str:
    return f"unknown name {show(name)}{of_value(name, known)}; known: {', '.join(known)}"


def _check_constants(tree: Tree, numbers: Mapping[str, float]) -> None:
    """Raise an error for constant parts without a finite value.

    Such a part is a division by zero, a root of a negative number, a number out of float32's range.
    """

    def constant(part: Tree) -> float | None:
        if not Expression(part).names <= set(numbers):
            return None
        with np.errstate(all="ignore"):
            return float(_value(part, numbers, np))

    for part in reversed([*_parts(tree)]):
        match part:
            case ("divide", _, divisor) if constant(divisor) == 0:
                raise ValueError(f"division by zero in {show(Expression(part).text())}")
        if not np.isfinite(constant(part) or 0.0):
            raise ValueError(f"{show(Expression(part).text())} is no finite number")


def _parts(tree: Tree) -> Iterator[Tree]:
    """Yield a tree and all parts of it."""
    yield tree
    if isinstance(tree, tuple):
        for part in tree[1:]:
            yield from _parts(part)


def _value(tree: Tree, values: PlainMapping, library: Any) -> Any:
    """The value of a tree, in float32, by NumPy or JAX."""
    match tree:
        case str():
            return library.asarray(values[tree], np.float32)
        case ("power", base, exponent) if whole := _whole(exponent):
            return _value(base, values, library) ** whole
        case (name, *operands):
            found = [_value(each, values, library) for each in operands]
            if name == "where":
                found = [found[0] > found[1], *found[2:]]
            return getattr(library, "negative" if name == "negate" else name)(*found)
    with np.errstate(over="ignore"):
        try:
            return np.float32(tree)  # type: ignore[arg-type]
        except OverflowError:  # an int beyond float64
            return np.float32(np.inf)


def _whole(exponent: Tree) -> int:
    """The whole number that an exponent is written as, as in x ** 3; 0 for any other one."""
    is_whole = isinstance(exponent, int | float) and exponent in range(1, MAX_POWER + 1)
    return int(exponent) if is_whole else 0  # type: ignore[arg-type]


def _syntax(tree: Tree, numbers: Mapping[str, float]) -> ast.expr:
    """Return a tree as Python's, with numbers in the place of names."""
    match tree:
        case str() if tree not in numbers:
            return ast.Name(tree)
        case (name, *operands):
            parts = [_syntax(each, numbers) for each in operands]
            if name in _SIGNS:
                return ast.BinOp(parts[0], _SIGNS[name](), parts[1])
            if name == "negate":
                return ast.UnaryOp(ast.USub(), parts[0])
            if name == "where":
                parts = [ast.Compare(parts[0], [ast.Gt()], [parts[1]]), *parts[2:]]
            return ast.Call(ast.Name(name), parts, [])
    number: Any = float(f"{numbers[tree]:.4g}") if isinstance(tree, str) else tree
    size = ast.Constant(abs(number))
    return ast.UnaryOp(ast.USub(), size) if str(number).startswith("-") else size


# --- Programs: trees as codes -------------------------------------------------------------------

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


def _items(tree: Tree, inputs: Sequence[str], numbers: Mapping[str, float]) -> Iterator[Item]:
    """Yield a tree in postfix order."""
    match tree:
        case str() if tree not in numbers:
            yield INPUT + inputs.index(tree), 0.0
        case ("power", base, exponent) if whole := _whole(exponent):
            yield from _whole_power([*_items(base, inputs, numbers)], whole)
        case (name, *operands):
            for each in operands:
                yield from _items(each, inputs, numbers)
            yield code_of(name), 0.0
        case _:
            yield CONSTANT, float(numbers[tree] if isinstance(tree, str) else tree)  # type: ignore[arg-type]


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
    """Return a valid program [L] as text that can be read again."""
    names, stack = list(OPERATIONS), list[Tree]()
    for code, constant in zip(codes.tolist(), constants, strict=True):
        if code == BLANK:
            break
        if code == CONSTANT:
            stack.append(float(str(constant)))  # the fewest digits of a float32
        elif code >= INPUT:
            stack.append(inputs[code - INPUT])
        else:
            name = names[code - 1]
            operands = stack[-OPERATIONS[name] :]
            del stack[-OPERATIONS[name] :]
            stack.append(("power", *operands, 2) if name == "square" else (name, *operands))
    (tree,) = stack
    return Expression(tree).text()
