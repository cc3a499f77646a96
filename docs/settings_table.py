"""Tables of settings, from their dataclasses."""

import dataclasses
import importlib
import types
import typing
from typing import Any

from metaevo.config import dump_yaml
from metaevo.config.sections import documentation
from metaevo.config.validation import default_of


def settings(section: str, file: str, name: str) -> list[list[str]]:
    """Return the name, type, default and meaning of the fields of a dataclass and its bases.

    Bases count if they are in `purerl.parts`.

    Args:
        section: section of the config.
        file: source file with the class, relative to the root.
        name: name of the class.
    """
    cls = getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)
    shown = [each for each in cls.__mro__ if each.__module__.startswith("purerl.parts.")]
    names = {key for each in [*shown, cls] for key in each.__annotations__}
    kinds, texts = typing.get_type_hints(cls), documentation(cls)
    return [
        [f"`{section}.{key}`", _type(kinds[key]), _default(field), texts.get(key, "")]
        for field in dataclasses.fields(cls)
        if (key := field.name) in names
    ]


def _type(kind: Any) -> str:
    """Return a type as a cell: `int | None`, `list of str`, or the values of a `Literal`."""
    parts = typing.get_args(kind)
    if kind == dict[str, Any]:
        return "mapping"
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{each}`" for each in parts)
    names = [each if each is ... else _type(each) for each in parts]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " \\| ".join(names)
    if ... in names:
        return f"list of {names[0]}"
    name = "None" if kind is types.NoneType else kind.__name__
    return f"{name}[{', '.join(names)}]" if names else name


def _default(field: Any) -> str:
    """Return a default value in YAML syntax."""
    value = default_of(field)
    if value is dataclasses.MISSING:
        return ""
    if dataclasses.is_dataclass(value):
        return f"`{type(value).__name__}`"
    return f"`{dump_yaml([value], flow=True).strip()[1:-1]}`"
