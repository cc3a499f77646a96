"""Data as YAML and JSON hold it: settings, records of a run, results."""

from collections.abc import Mapping
from typing import Any

PlainDict = dict[str, Any]
"""Names to numbers, strings, booleans, None, lists and dicts of the same."""
PlainMapping = Mapping[str, Any]
"""The same, where it is only read."""
