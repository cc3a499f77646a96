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


def with_python_scalars(data: Any) -> Any:
    """Return nested plain data in which Python's numbers replace scalars of NumPy and JAX."""
    if isinstance(data, dict):
        return {key: with_python_scalars(value) for key, value in data.items()}
    if type(data) in (list, tuple):
        return type(data)(map(with_python_scalars, data))
    is_scalar = getattr(data, "ndim", None) == 0 and hasattr(data, "item")
    return data.item() if is_scalar else data
