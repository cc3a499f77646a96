"""Source code that the user has executed by name, remembered by its SHA-256.

A run directory cannot grant itself trust: the digests are kept in the user's cache folder.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, show
from purerl.custom_env import is_custom, source_digest

_NAMED_BY_RUNS: set[str] = set()
"""Environments from outside metaevo that the config of a run directory names."""


def note_environments(config: Any) -> None:
    """Note the environments of the user's own that a run directory names; see `check_environment`.

    Args:
        config: the content of its config.yaml.
    """
    if isinstance(config, str) and is_custom(config):
        _NAMED_BY_RUNS.add(config)
    elif isinstance(config, Mapping):
        for key, value in config.items():
            note_environments(key)
            note_environments(value)
    elif isinstance(config, list | tuple):
        for value in config:
            note_environments(value)


def check_environment(name: str) -> None:
    """Raise if the source of an environment would run only because a run directory names it.

    An environment that the user names is remembered, so that its run can be resumed and compared.

    Args:
        name: of any environment.

    Raises:
        ConfigError: if the user has not executed exactly this file by name.
    """
    if not is_custom(name):
        return
    try:
        digest = source_digest(name)
    except ValueError as error:
        raise ConfigError(f"task.env: {error}") from error
    if name not in _NAMED_BY_RUNS:
        remember(digest)
    elif not is_remembered(digest):
        raise ConfigError(
            f"task.env = {show(name)}: only the run directory names this file, or the file has "
            f"changed since; to execute it, name it once: metaevo envs {name}"
        )


def remember(digest: str) -> None:
    """Note source code that runs because the user named its file or module."""
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
