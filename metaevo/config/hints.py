"""Suggestions for an unknown key or file name."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, get_type_hints

COMMANDS = {
    **dict.fromkeys(("seeds", "value_loss"), "train"),
    **dict.fromkeys(("evolve", "component", "strategy", "evolution"), "evolve"),
    **dict.fromkeys(("space", "sweep"), "sweep"),
}
"""The `metaevo` command of each setting at the root of a config."""


class UnknownKey(NamedTuple):
    """A key that a section of the settings does not have."""

    shown: str
    key: str
    """dotted"""
    siblings: list[str]
    """the keys that the section has"""

    def explained(self, root: Any) -> str:
        """Return the message; `root` is the dataclass of all settings."""
        hint = of_key(self.key, self.siblings, root)
        allowed = ", ".join(sorted(self.siblings)) or "none"
        return f"unknown key {self.shown}{hint}; allowed: {allowed}"


def of_key(key: str, siblings: Iterable[str], root: Any) -> str:
    """Return the suggestion for an unknown dotted key, " (did you mean ...?)", or an empty text.

    `siblings` are the keys of its section, `root` is the dataclass of all settings.
    """
    section, _, name = key.rpartition(".")
    if not section and name in COMMANDS:
        return f" (a setting of `metaevo {COMMANDS[name]}`; is this a config for it?)"
    by_name: dict[str, list[str]] = {}
    for dotted in _dotted(root):
        by_name.setdefault(dotted.rpartition(".")[2], []).append(dotted)
    meant = by_name.get(name) or difflib.get_close_matches(name, list(siblings), n=1)
    if not meant:
        short = [each for each in by_name if "".join(w[:1] for w in each.split("_")) == name]
        for other in short or difflib.get_close_matches(name, list(by_name), n=1, cutoff=0.7):
            meant = meant + by_name[other]
    return f" (did you mean {' or '.join(repr(each) for each in meant[:3])}?)" if meant else ""


def of_value(value: Any, allowed: Iterable[str]) -> str:
    """Return the suggestion for a name that is not allowed."""
    close = difflib.get_close_matches(value, list(allowed), n=1) if isinstance(value, str) else []
    return f" (did you mean {close[0]}?)" if close else ""


def _dotted(cls: Any, prefix: str = "") -> Iterator[str]:
    if dataclasses.is_dataclass(cls):
        kinds = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.init:
                yield prefix + field.name
                yield from _dotted(kinds[field.name], f"{prefix}{field.name}.")
