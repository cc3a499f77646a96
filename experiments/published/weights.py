"""Files with published weights: which they are is known by their SHA-256."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from purerl.types import SettingError


def read(path: str | Path, known: Mapping[str, Any], where: str) -> tuple[Any, Any]:
    """Return what is known of a file, by its SHA-256, and its arrays.

    Raises:
        SettingError: if it cannot be read, or is no copy of a known file, which are at `where`.
    """
    name = f"weights = {str(path)!r}"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"{name}: {error.strerror}; must be a copy of {where}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest not in known:
        wrong = f"its SHA-256 begins with {digest[:8]}"
        raise SettingError(f"{name}: {wrong}; must be an unaltered copy of {where}")
    return known[digest], np.load(io.BytesIO(content), allow_pickle=False)
