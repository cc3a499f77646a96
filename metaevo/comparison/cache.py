"""Results that are stored in a file, so that an interrupted comparison does not repeat them."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, files
from metaevo.config.plain import PlainDict


def cached_in(file: Path | None, kind: Any, key: str, work: Callable[[], PlainDict]) -> Any:
    """Return the content of a file if it has this key; otherwise do the work and write it there.

    A damaged file is replaced, with a warning.

    Args:
        file: None if the result is not kept.
        kind: the type of its content, which has a `key`.
        key: digest of everything that the result depends on.
        work: returns the rest of the content.
    """
    if file is not None and file.exists():
        try:
            found = files.read_json(file, kind)
            if found["key"] == key:
                return found
        except ConfigError as error:
            warnings.warn(f"measuring again: {error}", stacklevel=2)
    found = files.plain({"key": key, **work()})
    if file is not None:
        files.write_json_atomic(file, found)
    return found
