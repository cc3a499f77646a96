"""Help about settings, from the annotations and the documentation of their fields."""

import argparse
import dataclasses
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from metaevo.config.plain import PlainDict, flatten, to_dict
from metaevo.config.sections import settings_of
from metaevo.config.yaml_files import dump_yaml


def add_settings(parser: argparse.ArgumentParser, cls: Any, raw: PlainDict) -> None:
    """Add the help of all settings to a parser's, with the values in `raw` as defaults."""
    groups: PlainDict = {"": parser.add_argument_group("settings")}
    given = flatten(raw)
    for key, kind, default, text in settings_of(cls):
        if dataclasses.is_dataclass(kind):
            groups[key] = parser.add_argument_group(f"settings of {key}")
            continue
        note, value = "required", given.get(key, default)
        if value is not dataclasses.MISSING:
            note = f"default: {dump_yaml([to_dict(value)], flow=True)[1:-2]}"
        groups[key.rpartition(".")[0]].add_argument(
            f"--{key}", metavar=describe(kind), help=f"{text} ({note})".strip().replace("%", "%%")
        )


_WORDS = {int: "integer", float: "number", bool: "true or false", str: "text", type(None): "null"}
_LIMITS = {
    "gt": "greater than",
    "ge": "at least",
    "lt": "less than",
    "le": "at most",
    "min_length": "of length at least",
    "max_length": "of length at most",
}
"""Words before the limits of annotated_types, by attribute."""


def describe(kind: Any) -> str:
    """Describe the values that an annotation allows."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [
            f"{words} {limit}"
            for each in arguments[1:]
            for name, words in _LIMITS.items()
            if (limit := getattr(each, name, None)) is not None
        ]
        return f"{describe(arguments[0])} {' and '.join(limits)}".strip()
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (tuple, list):
        items = ["..." if each is ... else describe(each) for each in arguments]
        return f"list [{', '.join(items + ['...'] * (origin is list))}]"
    return _WORDS.get(kind, "{...}")
