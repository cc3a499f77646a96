"""Source code that the user has executed by name, remembered by its SHA-256.

A run directory cannot grant itself trust: the digests are kept in the user's cache folder.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metaevo.config.errors import ConfigError, show
from metaevo.config.files import read
from metaevo.config.plain import PlainDict, PlainMapping
from purerl import custom

_LOADED: PlainDict = {}
"""Sources that this process has executed, by name; a file is not read again if it changes."""
_NAMED_BY_RUNS: set[str] = set()
"""Objects from outside metaevo that are named by the config of a run directory."""
_NAMED_BY_USER: set[str] = set()
"""Those that the user names too, for example on the command line."""


def note_names(config: Any) -> None:
    """Record the custom objects named by the config.yaml of a run directory; see `check`."""
    _NAMED_BY_RUNS.update(_names_in(config))


def note_user_names(settings: PlainMapping) -> None:
    """Record the custom objects in settings of the user, which may be named by a run too."""
    _NAMED_BY_USER.update(_names_in(settings))


def trust_names() -> None:
    """Treat sources named by run directories so far as named by the user (`--trust-source`)."""
    _NAMED_BY_RUNS.clear()


def _names_in(config: Any) -> set[str]:
    if isinstance(config, str):
        return {config} if custom.is_custom(config) or config.endswith(".py") else set()
    parts: list[Any] = []
    if isinstance(config, Mapping):
        parts = [*config, *config.values()]
    elif isinstance(config, list | tuple):
        parts = list(config)
    return set().union(*map(_names_in, parts))


def check(key: str, name: str) -> None:
    """Raise if source code would be executed only because a run directory names it.

    Sources that the user names are remembered, so that their runs can be resumed and compared.
    Names of shipped code and of objects passed from Python are ignored. `key` is the setting.
    """
    if custom.is_given(name) or not custom.is_custom(name):
        return
    try:
        digest = custom.source_digest(name)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error
    _check(key, name, digest)


def check_file(key: str, path: str) -> None:
    """Raise if a component's file would be executed only because a run directory names it."""
    _check(key, path, hashlib.sha256(read(Path(path))).hexdigest())


def _check(key: str, name: str, digest: str) -> None:
    if name not in _NAMED_BY_RUNS - _NAMED_BY_USER:
        remember(digest)
    elif not is_remembered(digest):
        way = f"name it once: metaevo envs {name}"
        if key != "task.env":
            way = f"name it too (--{key}) or add --trust-source"
        raise ConfigError(
            f"{key} = {show(name)}: only the run directory names this file, or the file has "
            f"changed since; to execute it, {way}"
        )


def load(key: str, name: str) -> Any:
    """Return the custom object, `FILE.py:NAME` or `MODULE:NAME`, that a setting names."""
    if name not in _LOADED:
        check(key, name)
        try:
            _LOADED[name] = custom.load(name)
        except ValueError as error:
            raise ConfigError(f"{key} = {show(name)}: {error}") from error
    return _LOADED[name]


def remember(digest: str) -> None:
    """Record source code that runs because the user named its file or module."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / digest).touch()
    except OSError:
        pass  # then `--trust-source` is needed


def is_remembered(digest: str) -> bool:
    """Whether this user has executed exactly this source code by name."""
    path = _folder() / digest
    try:
        return path.is_file() and path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "metaevo" / "sources"
