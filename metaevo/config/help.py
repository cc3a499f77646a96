"""Help about settings, from the annotations and the documentation of their fields."""

import argparse
import dataclasses
import shutil
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import GroupedMetadata

from metaevo.config.plain import PlainDict
from metaevo.config.sections import documentation, settings_of
from metaevo.config.validation import flatten, to_dict
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
    groups: PlainDict = {"": parser.add_argument_group("settings")}
    given = flatten(raw)
    for each in settings_of(cls):
        if dataclasses.is_dataclass(each.kind):
            groups[each.key] = parser.add_argument_group(f"settings of {each.key}")
            continue
        value = given.get(each.key, each.default)
        note = "required" if value is dataclasses.MISSING else f"default: {_plain_text(value)}"
        text = f"{documentation(each.owner).get(each.key.rpartition('.')[2], '')} ({note})"
        groups[each.key.rpartition(".")[0]].add_argument(
            f"--{each.key}", metavar=describe(each.kind), help=text.strip().replace("%", "%%")
        )
    return parser.format_help().lstrip("\n")


def _plain_text(value: Any) -> str:
    return dump_yaml([to_dict(value)], flow=True)[1:-2]  # of "[value]" and a newline


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
