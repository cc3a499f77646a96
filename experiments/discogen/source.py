"""The source text of a rule with all that it uses: a file that stands alone.

Definitions of purerl and metaevo are copied from their files, without annotations, before the ones
that refer to them; a part is copied as a class with the methods that `apply` calls. So an exported
rule computes what ours does, whatever its kind.
"""

import ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import metaevo

OURS = "purerl", "metaevo"
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
    """Definitions in the order in which a file needs them."""

    def __init__(self, taken: Iterable[str]):
        self.imports: dict[str, None] = {}
        self.definitions: list[str] = []
        self.taken = set(taken)
        """names that the file has"""
        self._names: dict[tuple[str, str], str] = {}

    def function(self, function: Callable[..., Any]) -> str:
        """Add a function of a module; return its name in the file."""
        module = _module(function)
        for name, value in vars(module).items():
            if value is function:
                return self.add(module, name)
        raise metaevo.ConfigError(f"{function}: is no function of a module, so it has no source")

    def part(self, part: metaevo.Part) -> str:
        """Add a part as a class with its settings; return the class's name in the file."""
        kind, settings = type(part), {each.name for each in dataclasses.fields(part)}
        body: list[ast.stmt] = []
        wanted = ["apply"]
        for name in wanted:  # it grows
            home = next(each for each in kind.__mro__ if name in vars(each) or name in settings)
            if name in settings or not _is_method(vars(home)[name]):
                value = ast.parse(repr(getattr(part, name)), mode="eval").body
                body.insert(0, ast.Assign([ast.Name(name)], value, lineno=0))
                continue
            module = _module(home)
            definition = _defined(_statement(module, home.__name__).body, name)  # type: ignore[attr-defined]
            for node in ast.walk(definition):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=attr) if attr not in wanted:
                        wanted.append(attr)
            body.append(self._rewritten(definition, module))
        own = self.name(kind.__name__)
        tree = ast.ClassDef(own, [], [], body, [], type_params=[])  # type: ignore[call-arg]
        self.definitions.append(ast.unparse(ast.fix_missing_locations(tree)))
        return own

    def add(self, module: ModuleType, name: str) -> str:
        """Add a definition of a module, after what it uses; return its name in the file."""
        key = module.__name__, name
        if key in self._names:
            return self._names[key]
        statement = _statement(module, name)
        match statement:
            case ast.ImportFrom(module=str(origin), names=names) if _is_ours(origin):
                (alias,) = (each for each in names if name in (each.asname, each.name))
                return self.add(sys.modules[origin], alias.name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                statement.names = [each for each in names if name in (each.asname, each.name)]
                origin = getattr(statement, "module", None) or statement.names[0].name
                if (root := origin.partition(".")[0]) not in THEIRS | sys.stdlib_module_names:
                    allowed = ", ".join(sorted(THEIRS))
                    raise metaevo.ConfigError(f"imports {root}: their modules have {allowed} only")
                self.imports[ast.unparse(statement)] = None
                return name
        self._names[key] = own = self.name(name)
        if (plain := PLAIN.get(":".join(key))) is not None:
            self.definitions.append(plain)
            return own
        for other in _targets(statement):
            self._names[module.__name__, other] = own if other == name else self.name(other)
        self.definitions.append(ast.unparse(self._rewritten(statement, module)))
        return own

    def name(self, name: str) -> str:
        """Take a name that the file does not have yet."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _rewritten(self, statement: ast.stmt, module: ModuleType) -> Any:
        return ast.fix_missing_locations(_Rewriter(self, module, statement).visit(statement))


class _Rewriter(ast.NodeTransformer):
    """Adds what a statement refers to, under its name in the file, and removes annotations."""

    def __init__(self, source: Source, module: ModuleType, statement: ast.stmt):
        self.source, self.module = source, module
        arguments = {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
        self.local = arguments | set(_stored(statement)) - set(_targets(statement))

    def _is_global(self, name: str) -> bool:
        return name not in self.local and name in vars(self.module) and name != "__name__"

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._is_global(node.id):
            node.id = self.source.add(self.module, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node.value:
            case ast.Name(id=name) if self._is_global(name):
                value = vars(self.module)[name]
                if isinstance(value, ModuleType) and _is_ours(value.__name__):
                    return ast.Name(self.source.add(value, node.attr), node.ctx)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.source._names.get((self.module.__name__, node.name), node.name)
        node.returns = None
        for each in ast.walk(node.args):
            if isinstance(each, ast.arg):
                each.annotation = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self.source._names.get((self.module.__name__, node.name), node.name)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if isinstance(node.target, ast.Name) and node.target.id in self.local:
            node.annotation = ast.Name("object")  # a field of a tuple
        elif node.value is not None:
            return self.generic_visit(ast.Assign([node.target], node.value, lineno=0))
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in OURS


def _module(thing: Any) -> ModuleType:
    module = inspect.getmodule(thing)
    if module is None:
        raise metaevo.ConfigError(f"{thing}: has no source")
    return module


def _is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, property)


def _statement(module: ModuleType, name: str) -> ast.stmt:
    """Return a new tree of the statement that defines a name of a module."""
    return _defined(ast.parse(inspect.getsource(module)).body, name)


def _defined(body: list[ast.stmt], name: str) -> ast.stmt:
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found = [each.asname or each.name for each in statement.names]
        else:
            found = list(_targets(statement))
        if name in found:
            return statement
    raise metaevo.ConfigError(f"{name}: is not defined where its source is")


def _targets(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for each in targets:
                yield from (node.id for node in ast.walk(each) if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _stored(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds, and those of functions inside."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
