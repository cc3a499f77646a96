"""Errors of validation in our words: one line with the key, the value and what is allowed."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator
from typing import Any, get_type_hints

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from metaevo.config.plain import ConfigError, show

_ALLOWED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "string_type": "text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}
"""The values that are allowed, by the type of an error that pydantic words differently."""


def reworded(error: ValidationError, data: Any, key: str, kind: Any) -> ConfigError:
    """Return a problem in our words: an unknown key, or the one at the deepest place."""
    problems = [(_place(each, data), each) for each in error.errors(include_url=False)]
    for place, problem in problems:
        if problem["type"] == "unexpected_keyword_argument":
            return unknown(".".join(map(str, place)), kind)
    place = max((each for each, _ in problems), key=len)
    here = [problem for each, problem in problems if each == place]  # of the options of a union
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    name = (key + "".join(parts)).removeprefix(".")
    match here[0]:
        case {"type": "missing"}:
            return ConfigError(f"missing key {name!r}")
        case {"type": "value_error", "ctx": {"error": words}}:
            return ConfigError(f"{name}: {words}".removeprefix(": "))
    allowed = dict.fromkeys(
        _ALLOWED.get(each["type"], "").format(**each.get("ctx", {}))
        or each["msg"].removeprefix("Input should be ")
        for each in here
    )
    words = f"must be {' or '.join(allowed)}"
    shown = show(here[0]["input"])
    return ConfigError(f"{name} = {shown}: {words}" if name else f"{words}, not {shown}")


def unknown(key: str, root: Any, flags: Iterable[str] = ()) -> ConfigError:
    """Return the error for a dotted key that the settings do not have, with a suggestion.

    With the other `flags` of a command line the key is one of them.
    """
    section, _, name = key.rpartition(".")
    paths = list(_paths(root))
    inside = {path.rpartition(".")[2]: path for path in paths if path.rpartition(".")[0] == section}
    ends = {path.rpartition(".")[2]: path for path in reversed(paths)}
    names = ends | {flag: flag for flag in flags} | inside
    close = difflib.get_close_matches
    near = [name] if name in ends else (section and close(name, inside, 1)) or close(name, names, 1)
    meant = [names[each] for each in near] or close(key, paths, 1)
    if flags:
        start, hint = f"unknown flag --{key}", "".join(f"--{each}" for each in meant)
    else:
        start, hint = f"unknown key {show(key)}", "".join(map(repr, meant))
    hint = hint and f" (did you mean {hint}?)"
    return ConfigError(f"{start}{hint}; allowed: {', '.join(sorted(inside)) or 'none'}")


def _paths(cls: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a dataclass, and of the sections in it."""
    kinds = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if field.init:
            yield prefix + field.name
            if dataclasses.is_dataclass(kinds[field.name]):
                yield from _paths(kinds[field.name], f"{prefix}{field.name}.")


def _place(problem: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """Return the keys and indices that lead to a problem, without pydantic's names of options."""
    place: list[str | int] = []
    for part in problem["loc"]:
        is_index = isinstance(part, int) and isinstance(data, list | tuple) and part < len(data)
        if is_index or (isinstance(data, dict) and part in data):
            place.append(part)
            data = data[part]
    if problem["type"] == "missing":
        place.append(problem["loc"][-1])
    return tuple(place[1:])
