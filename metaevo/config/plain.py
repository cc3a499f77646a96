"""Data as YAML and JSON hold it: settings, records of a run, results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PlainDict = dict[str, Any]
"""Dict from names to numbers, strings, booleans, None, and lists and dicts thereof."""
PlainMapping = Mapping[str, Any]
"""Read-only counterpart of `PlainDict`."""


def listed(given: Any) -> list[Any]:
    """Return an argument as a list; one name or path counts as a list of one."""
    return [given] if isinstance(given, str | Path) else list(given)
