"""The user's own code, which settings name as `FILE.py:NAME`, `MODULE:NAME` or `FILE.py`.

Code runs if the user names it in the same command, or passes it as an object. The settings of a run
directory name code too, which is not enough: see `require_named`.
"""

import contextlib
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from metaevo.config.errors import ConfigError, show
from metaevo.config.plain import PlainDict, PlainMapping
from purerl import custom

RECORDED = "code"
"""Key of the digests in the resolved part of config.yaml."""
_LOADED: PlainDict = {}
"""Objects by name; a file is not read again if it changes."""


def load(key: str, name: str) -> Any:
    """Return the object, `FILE.py:NAME` or `MODULE:NAME`, that a setting `key` names."""
    if name not in _LOADED:
        try:
            _LOADED[name] = custom.load(name)
        except ValueError as error:
            raise ConfigError(f"{key} = {show(name)}: {error}") from error
    return _LOADED[name]


def texts_in(settings: Any) -> set[str]:
    """Return all texts in settings, keys too."""
    if isinstance(settings, str):
        return {settings}
    parts: list[Any] = []
    if isinstance(settings, Mapping):
        parts = [*settings, *settings.values()]
    elif isinstance(settings, list | tuple):
        parts = list(settings)
    return set().union(*map(texts_in, parts))


def names_in(settings: PlainMapping) -> list[str]:
    """Return the texts in settings that may name code of the user's."""
    found = texts_in({key: settings[key] for key in settings if key != "run"})
    named = {name for name in found if name.endswith(".py") or custom.is_custom(name)}
    # The name of a component may be that of a module.
    named |= {name for name in texts_in(settings.get("evolve", [])) if "." in name}
    return sorted(named)


def digests(settings: PlainMapping) -> dict[str, str]:
    """Return the SHA-256 of the files whose objects settings name."""
    found = {}
    for name in filter(custom.is_custom, names_in(settings)):
        if not custom.is_given(name):
            with contextlib.suppress(ValueError):  # no code, although it looks like some
                found[name] = custom.source_digest(name)
    return found


def require_named(
    path: Path,
    settings: PlainMapping,
    resolved: PlainMapping,
    given: Any,
    known: Collection[str] = (),
) -> None:
    """Raise `ConfigError` if settings of a run directory name code that the user does not name.

    Args:
        path: of the run directory.
        settings: taken from there.
        resolved: the resolved part of its config.yaml.
        given: the user's settings and flags.
        known: components that this process has imported already.
    """
    named = texts_in(given)
    missing = [
        name
        for name in names_in(settings)
        if name not in named and name not in known and not custom.is_loaded(name)
    ]
    if missing:
        flags = " ".join(f"--code {shlex.quote(name)}" for name in missing)
        raise ConfigError(
            f"{path}: its settings name code that this command does not name, so that it does not "
            f"run; to run it, add {flags} (in Python: code={missing})"
        )
    refuse_changes(settings, resolved)


def refuse_changes(settings: PlainMapping, resolved: PlainMapping) -> None:
    """Raise `ConfigError` if code that settings name has changed since their run began."""
    before, now = resolved.get(RECORDED) or {}, digests(settings)
    if changed := [name for name in now if before.get(name, now[name]) != now[name]]:
        raise other_code(changed)


def other_code(names: Collection[str], where: str = "") -> ConfigError:
    """Return the error to raise if code has changed since a run began."""
    return ConfigError(
        f"cannot continue with other code: {', '.join(names)} changed since the run began{where}; "
        "restore it, or start a new run"
    )
