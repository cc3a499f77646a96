"""Formulas and programs as Python: functions of their inputs, which metaevo's language fills in."""

import ast
import sys
from typing import Any

import metaevo
from experiments.discogen.source import Source

LIMITED = "divide", "power", "sqrt", "exp", "log1p"
"""Operations that have limits in programs."""
INTERPRETER = "metaevo.parts.interpreter"
"""Module with what programs limit."""
Written = metaevo.parts.Formula | metaevo.parts.Program


def add(source: Source, part: Written, meta_params: Any) -> str:
    """Add a formula or program as a function; return that of its slot, as an expression."""
    constants: dict[str, float] = {}
    if isinstance(part, metaevo.parts.Formula):
        text, constants, limits = part.expression, part.numbers(meta_params), ""
    elif (text := part.text(meta_params)) == "no program":
        raise metaevo.ConfigError("the run's best program is none: nothing to export")
    else:
        limits = source.need(sys.modules[INTERPRETER], "INSTRUCTIONS")
    python = _Python(limits)
    value = ast.unparse(python.visit(ast.parse(text.strip(), mode="eval").body))
    names, function = sorted(python.reads - set(constants)), f"{part.slot}_formula"
    given = [f"{name} = inputs[{name!r}]" for name in names]
    given += [f"{name} = {float(number)!r}" for name, number in constants.items()]
    body = "\n    ".join((*given, f"return {value}"))
    source.functions.append(f"def {function}(inputs):\n    {body}")
    fill: Any = part.known.fill
    fill, fixed = getattr(fill, "func", fill), getattr(fill, "args", ())  # of functools.partial
    rule = source.need(sys.modules[fill.__module__], "Rule")
    evaluate = f"lambda _, inputs, number: {function}(inputs)"
    arguments = [source.function(each) if callable(each) else repr(each) for each in fixed]
    arguments.append(f"{rule}({names}, {evaluate}, {part.gives!r})")
    return f"{source.function(fill)}({', '.join(arguments)})"


class _Python(ast.NodeTransformer):
    """Calls jax.numpy, or what programs limit; and notes which names are read."""

    def __init__(self, limits: str):
        self.limits, self.reads = limits, set[str]()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.reads.add(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        assert isinstance(node.func, ast.Name)
        return self._call(node.func.id, [self.visit(each) for each in node.args])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        parts = [self.visit(node.left), self.visit(node.right)]
        is_square = isinstance(node.right, ast.Constant) and node.right.value == 2
        match node.op:
            case ast.Div() if self.limits:
                return self._call("divide", parts)
            case ast.Pow() if self.limits and not is_square:
                return self._call("power", parts)
        return ast.BinOp(parts[0], node.op, parts[1])

    def _call(self, name: str, arguments: list[ast.expr]) -> ast.expr:
        if not self.limits or name not in LIMITED:
            return ast.Call(ast.Attribute(ast.Name("jnp"), name), arguments, [])
        operation = ast.Subscript(ast.Name(self.limits), ast.Constant(name))
        return ast.Call(operation, arguments, [])
