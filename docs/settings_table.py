"""Tables of settings, from their dataclasses."""

import dataclasses
import importlib
from typing import Any

from metaevo.config import dump_yaml
from metaevo.config.command_line import describe
from metaevo.config.sections import settings_of


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
    return [
        [f"`{section}.{key}`", describe(kind), _default(value), text]
        for key, kind, value, text in settings_of(cls)
        if key in names
    ]


def _default(value: Any) -> str:
    """Return a default value in YAML syntax."""
    if value is dataclasses.MISSING:
        return ""
    if dataclasses.is_dataclass(value):
        return f"`{type(value).__name__}`"
    return f"`{dump_yaml([value], flow=True).strip()[1:-1]}`"
