"""Settings with their documentation, for `--help` and docs/reference, and their dotted keys."""

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from metaevo.config.checks import Setting, default_of
from metaevo.config.files import dump_yaml
from metaevo.config.plain import PlainDict, flatten, to_dict


def settings_of(
    cls: Any, prefix: str = "", default: Any = dataclasses.MISSING
) -> Iterator[Setting]:
    """Yield the settings and sections of a dataclass; those of a section follow it."""
    kinds, texts = get_type_hints(cls, include_extras=True), _documentation(cls)
    for field in dataclasses.fields(cls):
        if field.init:
            key, kind = prefix + field.name, kinds[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            yield Setting(key, kind, value, texts.get(field.name, ""))
            if dataclasses.is_dataclass(kind):
                yield from settings_of(kind, f"{key}.", value)


@functools.lru_cache(maxsize=64)
def _documentation(cls: Any) -> dict[str, str]:
    """Return the string literals under the fields, also of base classes."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in itertools.pairwise(body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    texts[name] = " ".join(words.split())
    given = {each.name: each.metadata.get("doc") for each in dataclasses.fields(cls)}
    return texts | {name: text for name, text in given.items() if text}


def add_settings(parser: argparse.ArgumentParser, cls: Any, raw: PlainDict) -> None:
    """Add the help of all settings to a parser's, with the values in `raw` as defaults."""
    parser.epilog = None
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


def changed_keys(old: PlainDict, new: PlainDict) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys with different values, and both values; None if a key is missing."""
    before, after = flatten(old), flatten(new)
    pairs = {key: (before.get(key), after.get(key)) for key in before | after}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the last parts of dotted keys by key; the whole key if two have the same last part."""
    last = {key: key.rpartition(".")[2] for key in keys}
    shared = Counter(last.values())
    return {key: key if shared[name] > 1 else name for key, name in last.items()}


_WORDS: dict[Any, str] = {
    int: "integer", float: "number", bool: "true or false", str: "text", type(None): "null",
    Any: "name",
}  # fmt: skip


_LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "max_length": "of length <="}
"""Symbols before the limits of annotated_types, by attribute."""


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
