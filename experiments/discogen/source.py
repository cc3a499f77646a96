"""The source text of a rule with all that it uses: a file that stands alone.

Our modules are copied as far as a rule needs them, without annotations: each is a function that
returns its names. A part is copied as a class with the methods that `apply` calls. So an exported
rule computes what ours does, whatever its kind.
"""

import ast
import dataclasses
import inspect
import re
import symtable
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from types import ModuleType
from typing import Any

import metaevo

OURS = "purerl", "metaevo", "experiments"
THEIRS = {"jax", "numpy", "optax"}
"""Packages of a module, in addition to Python's."""
PLAIN = {
    "purerl.fast.arithmetic:tanh": "tanh = jnp.tanh",
    "purerl.fast.loops:scan": "scan = jax.lax.scan",
    "purerl.fast.loops:flattened": "flattened = lambda optimizer: optimizer",
    "purerl.fast.loops:clip_by_global_norm": "clip_by_global_norm = optax.clip_by_global_norm",
}
"""What purerl computes fast on a CPU, by module and name, as one would write it elsewhere."""


class Source:
    """The definitions that a file needs."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        """definitions that are no copies"""
        self._texts = defaultdict[str, dict[tuple[int, str], str]](dict)
        """by module, line and name"""
        self._uses = defaultdict[str, dict[str, None]](dict)
        """modules by module, in an order that is the same in every process"""
        self._methods = defaultdict[type, dict[str, ast.stmt]](dict)

    @property
    def text(self) -> str:
        """The definitions, each module after those that it uses."""
        parts = []
        for module in TopologicalSorter(self._uses).static_order():
            name, texts = _slug(module), self._texts[module]
            body = "\n".join([*(texts[key] for key in sorted(texts)), RETURN])
            parts.append(f"def {name}():\n{textwrap.indent(body, '    ')}\n\n\n{name} = {name}()")
        return "\n\n\n".join([*parts, *self.functions])

    def function(self, function: Callable[..., Any]) -> str:
        """Copy a function of a module; return it as an expression."""
        module = _module(function)
        for name, value in vars(module).items():
            if value is function:
                return self.need(module, name)
        raise metaevo.ConfigError(f"{function}: is no function of a module, so it has no source")

    def part(self, part: metaevo.Part) -> str:
        """Copy the methods of a part; return it with its settings, as an expression."""
        kind, values = type(part), dict[str, Any]()
        settings = {each.name for each in dataclasses.fields(part)}
        homes, wanted = dict[type, None](), ["apply"]
        for name in wanted:  # it grows
            home = next(each for each in kind.__mro__ if name in vars(each) or name in settings)
            if name in settings or not isinstance(vars(home)[name], Callable | property):  # type: ignore[arg-type]
                values[name] = getattr(part, name)
                continue
            homes[home] = None
            whole: Any = _defined(_module(home), home.__name__)
            definition = next(each for each in whole.body if getattr(each, "name", "") == name)
            self._methods[home][name] = definition
            for node in ast.walk(definition):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=attr) if attr not in wanted:
                        wanted.append(attr)
        for home in homes:
            module, body = _module(home), [*self._methods[home].values()]
            key = _defined(module, home.__name__).lineno, home.__name__
            copy = ast.ClassDef(home.__name__, [], [], body, [], type_params=[])  # type: ignore[call-arg]
            self._texts[module.__name__][key] = ""  # it may refer to itself
            self._texts[module.__name__][key] = self._copied(module, copy)
        order = [each for each in kind.__mro__ if each in homes]
        bases = "".join(f"{_slug(each.__module__)}.{each.__name__}, " for each in order)
        return f"type({kind.__name__!r}, ({bases}), {values!r})()"

    def need(self, module: ModuleType, name: str) -> str:
        """Copy the definition of a module's name; return it as an expression."""
        texts, statement = self._texts[module.__name__], _defined(module, name)
        key = statement.lineno, "" if isinstance(statement, ast.Assign) else name
        if key not in texts:
            plain = texts[key] = PLAIN.get(f"{module.__name__}:{name}", "")
            texts[key] = plain or self._copied(module, statement, name)
        return f"{_slug(module.__name__)}.{name}"

    def _copied(self, module: ModuleType, statement: ast.stmt, name: str = "") -> str:
        """Return the text of a statement, of an import that of one name; copy what it refers to."""
        known, uses = vars(module), self._uses[module.__name__]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            (alias,) = (each for each in statement.names if name in (each.asname, each.name))
            origin = getattr(statement, "module", None) or alias.name
            if _is_ours(known[name]):
                uses[known[name].__name__] = None
                return f"{name} = {_slug(known[name].__name__)}"
            if _is_ours(sys.modules[origin]):
                uses[origin] = None
                return f"{name} = {self.need(sys.modules[origin], alias.name)}"
            if (root := origin.partition(".")[0]) not in THEIRS | sys.stdlib_module_names:
                allowed = ", ".join(sorted(THEIRS))
                raise metaevo.ConfigError(f"imports {root}: their modules have {allowed} only")
            statement.names = [alias]
            return ast.unparse(statement)
        text = ast.unparse(ast.fix_missing_locations(_Plain().visit(statement)))
        needed = {each for each in _globals(text) if each in known}
        for each in sorted(needed):
            self.need(module, each)
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Attribute(value=ast.Name(id=id), attr=attr) if id in needed:
                    if _is_ours(known[id]):
                        self.need(known[id], attr)
        return text


RETURN = "return SimpleNamespace(**locals())"


class _Plain(ast.NodeTransformer):
    """Removes annotations, but for those that make the fields of a tuple."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Name("object")
        return self.generic_visit(node)


def _globals(text: str) -> Iterator[str]:
    """Yield the names that a statement of a module refers to."""
    tables = [symtable.symtable(text, "", "exec")]
    for table in tables:  # it grows
        tables += table.get_children()
        yield from (each.get_name() for each in table.get_symbols() if each.is_global())


def _is_ours(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in OURS


def _slug(module: str) -> str:
    return re.sub(r"\W", "_", module)


def _module(thing: Any) -> ModuleType:
    module = inspect.getmodule(thing)
    if module is None:
        raise metaevo.ConfigError(f"{thing}: has no source")
    return module


def _defined(module: ModuleType, name: str) -> ast.stmt:
    """Return a new tree of the statement that defines a name of a module."""
    for statement in ast.parse(inspect.getsource(module)).body:
        match statement:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found = [each.asname or each.name for each in names]
            case ast.FunctionDef() | ast.ClassDef():
                found = [statement.name]
            case ast.Assign(targets=targets):
                nodes = (node for each in targets for node in ast.walk(each))
                found = [node.id for node in nodes if isinstance(node, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=id)):
                found = [id]
            case _:
                continue
        if name in found:
            return statement
    raise metaevo.ConfigError(f"{name}: is not defined where its source is")
