"""Suggestions for an unknown key or file name."""

import difflib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from metaevo.config.errors import ConfigError, show
from metaevo.config.sections import settings_of

COMMANDS = {
    **dict.fromkeys(("seeds", "value_loss"), "train"),
    **dict.fromkeys(("evolve", "component", "strategy", "evolution"), "evolve"),
    **dict.fromkeys(("space", "sweep"), "sweep"),
}
"""The `metaevo` command of each setting at the root of a config."""


def unknown_key(key: str, root: Any) -> ConfigError:
    """Return the error for a dotted key that its section of the settings does not have.

    `root` is the dataclass of all settings.
    """
    section = key.rpartition(".")[0]
    siblings = sorted(each for each in dotted(root) if each.rpartition(".")[0] == section)
    allowed = ", ".join(each.rpartition(".")[2] for each in siblings) or "none"
    hint = of_key(key, siblings, root)
    return ConfigError(f"unknown key {show(key)}{hint}; allowed: {allowed}")


def of_key(key: str, siblings: Iterable[str], root: Any) -> str:
    """Return the suggestion for an unknown dotted key, " (did you mean ...?)", or an empty text.

    `siblings` are the dotted keys of its section, `root` is the dataclass of all settings.
    """
    section, _, name = key.rpartition(".")
    if not section and name in COMMANDS:
        return f" (a setting of `metaevo {COMMANDS[name]}`; is this a config for it?)"
    by_name: dict[str, list[str]] = {}
    for path in dotted(root):
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    short = [each for each in by_name if "".join(w[:1] for w in each.split("_")) == name]
    close = [name] if name in by_name else short or difflib.get_close_matches(name, by_name, n=1)
    paths = [path for each in close for path in by_name[each]]
    meant = [path for path in paths if path in set(siblings)] or paths
    return f" (did you mean {' or '.join(repr(each) for each in meant[:3])}?)" if meant else ""


def of_value(value: Any, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the suggestion for a name that is not allowed."""
    names = list(allowed) if isinstance(value, str) else []
    close = difflib.get_close_matches(value, names, n=1, cutoff=cutoff)
    return f" (did you mean {close[0]}?)" if close else ""


def of_path(path: str) -> str:
    """Return the suggestion for a path that does not exist: a similar name in its folder."""
    folder, name = os.path.split(os.path.normpath(path))
    try:
        paths = {each: os.path.join(folder, each) for each in os.listdir(folder or ".")}
    except (OSError, ValueError):
        return ""
    close = difflib.get_close_matches(name, paths, n=1, cutoff=0.7)
    return f" (did you mean {paths[close[0]]}?)" if close else ""


def dotted(cls: Any) -> Iterator[str]:
    """Yield the dotted keys of all settings and sections of a dataclass."""
    return (each.key for each in settings_of(cls))
