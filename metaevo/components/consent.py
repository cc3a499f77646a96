"""Source code that the user has executed by name, remembered by its SHA-256.

A run directory cannot grant itself trust: the digests are kept in the user's cache folder.
"""

import os
from pathlib import Path


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
