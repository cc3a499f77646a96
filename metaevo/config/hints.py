"""Suggestions for an unknown name."""

import difflib
from collections.abc import Iterable
from typing import Any


def of_value(value: Any, allowed: Iterable[str]) -> str:
    """Return the suggestion for a name that is not allowed."""
    close = difflib.get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
    return f" (did you mean {close[0]}?)" if close else ""
