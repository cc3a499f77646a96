"""Formulas and programs as Python: their text, with the inputs that it reads before it."""

import ast
import sys
from collections.abc import Sequence
from typing import Any, TypeGuard

import metaevo
from experiments.discogen.source import Source

ARGUMENTS = {
    "value_loss": ("prediction", "target", "old_prediction"),
    "policy_loss": ("log_ratio", "advantage"),
}
INPUTS = {
    "error": "prediction - target",
    "change": "prediction - old_prediction",
    "ratio": "jnp.exp(log_ratio)",
    "progress": "context.progress",
    "length": "jnp.log(jnp.float32(context.num_updates)) / 10.0",
}
"""Of losses and targets, next to the arguments; see docs/how-to/formula.md."""
LIMITED = "divide", "power", "sqrt", "exp", "log1p"
"""Operations that have limits in programs."""
INTERPRETER, OPTIMIZER, STEP_TARGETS = (
    "metaevo.parts.interpreter",
    "metaevo.parts.optimizer",
    "purerl.parts.step_targets",
)
"""Modules of the definitions that formulas and programs stand on."""
LARGEST = 20.0
"""Log ratio of a formula: `metaevo.parts.drift.LOG_RATIO_LIMIT`."""
Rule = metaevo.parts.Formula | metaevo.parts.Program


def is_written(part: Any) -> TypeGuard[Rule]:
    """Whether a part is a formula or a program."""
    return isinstance(part, Rule)


def add(source: Source, slot: str, part: Rule, meta_params: Any) -> str:
    """Add a rule as the function of a slot; return the function's name."""
    constants: dict[str, float] = {}
    if isinstance(part, metaevo.parts.Formula):
        text, constants = part.expression, part.numbers(meta_params)
    else:
        text = part.text(meta_params)
        source.add(sys.modules[INTERPRETER], "INSTRUCTIONS")
    if text == "no program":
        raise metaevo.ConfigError("the run's best program is none: nothing to export")
    python = _Python(limited=not isinstance(part, metaevo.parts.Formula))
    value = ast.unparse(python.visit(ast.parse(text.strip(), mode="eval").body))
    reads = sorted(python.reads - set(constants))
    given = [f"{name} = {float(number)!r}" for name, number in constants.items()]
    name = source.name(slot)
    if slot == "make_optimizer":
        along = source.add(sys.modules[OPTIMIZER], "optimizer_along")
        means = tuple(each for each in reads if each.startswith("mean_"))
        begin = ["inputs = seen.by_name", *(f"{each} = inputs[{each!r}]" for each in reads), *given]
        result = f"return jnp.broadcast_to({value}, seen.value.shape), memory"
        body = [_function("direction", "seen, memory", begin, result)]
        end = f"return {along}(direction, context, means={means})"
        source.definitions.append(_function(name, "meta_params, context", body, end))
    elif slot == "targets":
        backwards = source.add(sys.modules[STEP_TARGETS], "backwards")
        times = {"progress", "length"}
        begin = [f"{each} = {INPUTS[each]}" for each in reads if each in times]
        begin += [f"{each} = inputs[{each!r}]" for each in reads if each not in times] + given
        step = _function(
            f"step_of_{name}", "meta_params, context, inputs", begin, f"return {value}"
        )
        names = tuple(each for each in reads if each not in times)
        source.definitions += [step, f"{name} = {backwards}(step_of_{name}, {names})"]
    else:
        first, *others = ARGUMENTS[slot]
        begin = [f"{each} = {INPUTS[each]}" for each in reads if each in INPUTS] + given
        if slot == "policy_loss":
            begin.insert(0, f"log_ratio = jnp.clip(log_ratio, {-LARGEST}, {LARGEST})")
        arguments = ", ".join(("meta_params, context", first, *others))
        if part.gives == "slope":  # a loss of value zero with this slope
            inner = [_function("slope", first, begin, f"return {value}")]
            inner.append(f"held = jax.lax.stop_gradient({first})")
            text = _function(name, arguments, inner, f"return slope(held) * ({first} - held)")
        else:
            text = _function(name, arguments, begin, f"return {value}")
        source.definitions.append(text)
    return name


def _function(name: str, arguments: str, begin: Sequence[str], result: str) -> str:
    lines = "\n".join((*begin, result)).split("\n")
    return "\n".join((f"def {name}({arguments}):", *(f"    {line}" for line in lines)))


class _Python(ast.NodeTransformer):
    """Calls jax.numpy, or what programs limit; and notes which names are read."""

    def __init__(self, *, limited: bool):
        self.limited, self.reads = limited, set[str]()

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
            case ast.Div() if self.limited:
                return self._call("divide", parts)
            case ast.Pow() if self.limited and not is_square:
                return self._call("power", parts)
        return ast.BinOp(parts[0], node.op, parts[1])

    def _call(self, name: str, arguments: list[ast.expr]) -> ast.expr:
        if not self.limited or name not in LIMITED:
            return ast.Call(ast.Attribute(ast.Name("jnp"), name), arguments, [])
        operation = ast.Subscript(ast.Name("INSTRUCTIONS"), ast.Constant(name))
        padding: list[ast.expr] = [ast.Constant(None)] * (3 - len(arguments))
        return ast.Call(operation, [*arguments, *padding], [])
