"""Help about settings, from the annotations and the documentation of their fields."""

import argparse
import dataclasses
import shutil
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import GroupedMetadata

from metaevo.config.plain import PlainDict
from metaevo.config.sections import documentation
from metaevo.config.validation import default_of, flatten, to_dict
from metaevo.config.yaml_files import dump_yaml


def format_settings(cls: Any, raw: PlainDict) -> str:
    """Format the help of all settings, with the values in `raw` as defaults."""
    width = max(80, min(shutil.get_terminal_size().columns, 120))
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(
            prog, max_help_position=40, width=width
        ),
    )
    groups: PlainDict = {}
    given = flatten(raw)
    for key, kind, default, text in _settings(cls, "", dataclasses.MISSING):
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(
                f"settings of {section}" if section else "settings"
            )
        value = given.get(key, default)
        note = "required" if value is dataclasses.MISSING else f"default: {_plain_text(value)}"
        groups[section].add_argument(
            f"--{key}",
            metavar=describe(kind),
            help=f"{text} ({note})".strip().replace("%", "%%"),
        )
    return parser.format_help().lstrip("\n")


def _plain_text(value: Any) -> str:
    return dump_yaml([to_dict(value)], flow=True)[1:-2]  # of "[value]" and a newline


def _settings(cls: Any, prefix: str, default: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield dotted key, annotation, default and documentation of every setting, sections last."""
    hints, texts = get_type_hints(cls, include_extras=True), documentation(cls)
    sections = []
    for field in dataclasses.fields(cls):
        if field.init:
            kind = hints[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            if dataclasses.is_dataclass(kind):
                sections.append((kind, f"{prefix}{field.name}.", value))
            else:
                yield prefix + field.name, kind, value, texts.get(field.name, "")
    for section in sections:
        yield from _settings(*section)


_WORDS = {int: "integer", float: "number", bool: "true or false", str: "text", list: "list"}
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
        limits = " and ".join(_limits(arguments[1:]))
        return f"{describe(arguments[0])} {limits}".strip()
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in arguments)
    if origin in (tuple, list):
        items = ["..." if each is ... else describe(each) for each in arguments]
        return f"list [{', '.join(items + ['...'] * (origin is list))}]"
    if kind is type(None):
        return "null"
    return _WORDS.get(kind, "{...}")


def _limits(metadata: tuple[Any, ...]) -> Iterator[str]:
    for each in metadata:
        for limit in each if isinstance(each, GroupedMetadata) else [each]:
            for name, words in _LIMITS.items():
                if hasattr(limit, name):
                    yield f"{words} {getattr(limit, name)}"
