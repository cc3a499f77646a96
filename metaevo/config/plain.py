"""Data as YAML and JSON hold it: settings, records of a run, results."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PlainDict = dict[str, Any]
"""Dict from names to numbers, strings, booleans, None, and lists and dicts thereof."""
PlainMapping = Mapping[str, Any]
"""Read-only counterpart of `PlainDict`."""


def listed(given: Any) -> list[Any]:
    """Return an argument as a list; one name or path counts as a list of one."""
    return [given] if isinstance(given, str | Path) else list(given)


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the last parts of dotted keys, as few as are unique among all of them, by key."""
    dotted = [f".{key}" for key in keys]
    found = {}
    for key in dotted:
        ends = [at for at, letter in enumerate(key) if letter == "."]
        unique = (
            at for at in reversed(ends) if sum(each.endswith(key[at:]) for each in dotted) < 2
        )
        found[key[1:]] = key[next(unique, 0) + 1 :]
    return found
