"""Dataclasses of settings as their source code has them, because imports of learners take seconds.

A wrong name, and most wrong values, are found with them before JAX is imported. What cannot be read
here is allowed: it is checked when the class itself is known.
"""

import ast
import dataclasses
import functools
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from metaevo.config.plain import PlainDict
from metaevo.config.references import check_name

_PACKAGES = {name: Path(__file__).parents[2] / name for name in ("metaevo", "purerl")}
_LIGHT = "typing", "annotated_types", "metaevo.config"
"""Modules that may be imported"""


class Source(dict[str, Any]):
    """Names in a module of metaevo or purerl by the first use: classes, constants, submodules.

    A class with annotated fields is a dataclass, in which every field has a default. Everything
    that is unknown is `Any`.
    """

    def __init__(self, module: str):
        super().__init__()
        package, _, inner = module.partition(".")
        path = _PACKAGES[package].joinpath(*inner.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        self.module, self.nodes = module, ast.parse(path.read_text(encoding="utf-8")).body

    def __missing__(self, name: str) -> Any:
        self[name] = found = self._find(name)
        return found

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def _find(self, name: str) -> Any:
        for node in self.nodes:
            match node:
                case ast.ClassDef(name=own) if own == name:
                    fields = self._fields(node)
                    return _made(name, fields) if fields else Any
                case (
                    ast.Assign(targets=[ast.Name(id=own)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=own), value=ast.expr() as value)
                ) if own == name:
                    return self.value(value)
                case ast.ImportFrom(module=str(module), names=names):
                    for alias in names:
                        if (alias.asname or alias.name) == name:
                            return _imported(module, alias.name)
        raise KeyError(name)

    def text(self, name: str) -> str:
        """Return the source code of what is assigned to a name."""
        return next(
            ast.unparse(node.value)
            for node in self.nodes
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
        )

    def value(self, expression: ast.expr) -> Any:
        """Return the value of an expression, such as an annotation."""
        try:
            return eval(ast.unparse(expression), {}, self)
        except Exception:  # it needs what is not imported
            return Any

    def _fields(self, node: ast.ClassDef) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for base in map(self.value, node.bases):
            fields |= fields_of(base)
        for each in node.body:
            match each:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                    if "ClassVar" not in ast.unparse(kind):
                        fields[name] = self.value(kind)
        return fields


CLASSES = {
    "train": "metaevo.training.settings:training_class",
    "sweep": "metaevo.studies.sweeps:sweep_class",
}
"""Functions that return the class of a command's settings"""
EVOLUTION = "metaevo.studies.settings:settings_class"
"""The same for commands about an evolution"""
source = functools.cache(Source)


def stub(place: str, **kinds: Any) -> Any:
    """Return the dataclass at MODULE:NAME, with other kinds of its fields or more of them.

    It is `Any` if there is none.
    """
    module, _, name = place.partition(":")
    found = source(module)[name]
    return _made(name, fields_of(found) | kinds) if dataclasses.is_dataclass(found) else Any


def fields_of(cls: Any) -> dict[str, Any]:
    """Return the kinds of the fields of a dataclass; none of another class."""
    found = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {each.name: each.type for each in found}


def _imported(module: str, name: str) -> Any:
    if module.startswith(_LIGHT):
        return getattr(import_module(module), name)
    if module.partition(".")[0] not in _PACKAGES:
        return Any
    try:
        return source(module)[name]
    except KeyError:
        return source(f"{module}.{name}")


def _made(name: str, fields: dict[str, Any]) -> type:
    """Return a dataclass with defaults, which are not validated."""
    defaults = {key: kind if fields_of(kind) else type(None) for key, kind in fields.items()}
    made = [
        (key, kind, dataclasses.field(default_factory=defaults[key]))
        for key, kind in fields.items()
    ]
    return dataclasses.make_dataclass(name, made)


def settings_class(command: str, raw: PlainDict) -> Any:
    """Return the class of unvalidated settings, whose import takes seconds."""
    return pkgutil.resolve_name(CLASSES.get(command, EVOLUTION))(raw)


def early_class(command: str, raw: PlainDict) -> Any:
    """Return the class of unvalidated settings as its source code has it.

    Args:
        command: train, sweep, or a command about an evolution.
        raw: the settings, of which `problem`, `evolve` and `learner` are read.

    Raises:
        ConfigError: for an unknown learner or part.
    """
    names = source("metaevo.parts.learners")
    learners, parts = names["LEARNERS"], names["PARTS"]
    evolve, learner = raw.get("evolve"), raw.get("learner", "ppo")
    if isinstance(learner, str):
        check_name("learner", learner, learners)
    if isinstance(evolve, str):
        check_name("evolve", evolve, parts)
    if command == "train" or (command == "sweep" and not {"problem", "evolve"} & raw.keys()):
        place = "metaevo.training.settings:TrainSettings"
    elif "problem" in raw:
        place = "metaevo.studies.problems:ProblemSettings"
    else:
        place = "metaevo.studies.settings:EvolveSettings"
    own = fields_of(stub(place))
    kinds: PlainDict = {}
    if command == "sweep":
        kinds = fields_of(stub("metaevo.tuning.config:SweepSettings")) | own
    if "component" in own and isinstance(evolve, str) and evolve in parts:
        kinds["component"] = stub(parts[evolve])
    elif "component" in own:  # a part of the user's may have a strategy of its own
        kinds["strategy"] = Any
    if "train" in own and isinstance(learner, str) and learner in learners:
        module = learners[learner].partition(":")[0]
        kinds |= {"train": stub(f"{module}:Config"), "hyperparams": stub(f"{module}:Hyperparams")}
        kinds |= dict.fromkeys(slots_of(module), str)
    else:  # its own settings are known to its class
        others = filter(str.isidentifier, raw.keys() - own.keys() - kinds.keys())
        kinds |= dict.fromkeys(others, Any)
    return stub(place, **kinds)


def slots_of(module: str) -> list[str]:
    """Return the names of the slots of a learner of purerl, from its source code."""
    return [name.lower() for name in re.findall(r"\b([A-Z_]{2,})\b", source(module).text("SLOTS"))]
