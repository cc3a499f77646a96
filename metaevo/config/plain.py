"""Data as YAML and JSON hold it: settings, records of a run, results."""

from collections.abc import Mapping
from typing import Any

PlainDict = dict[str, Any]
"""Dict from names to numbers, strings, booleans, None, and lists and dicts thereof."""
PlainMapping = Mapping[str, Any]
"""Read-only counterpart of `PlainDict`."""
