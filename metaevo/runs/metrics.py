"""Records of metrics.jsonl: one JSON object per line."""

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metaevo.config import ConfigError, files
from metaevo.config.plain import PlainDict
from metaevo.runs import schema

FloatArray = NDArray[np.float64]

MAX_LINE = 2**24
"""most bytes of a line"""


class Records(list[PlainDict]):
    """Records of one kind, in order."""

    def column(self, name: str) -> FloatArray:
        """Return the numbers [records] under a key; NaN where there is no finite number."""
        return numbers(record.get(name) for record in self)


def numbers(values: Iterable[Any]) -> FloatArray:
    """Convert recorded values to floats; NaN for other types and non-finite numbers."""
    return np.array([_number(value) for value in values], np.float64)


def lines(path: Path) -> Iterator[tuple[bytes, PlainDict]]:
    """Yield each complete line of metrics.jsonl with its record."""
    try:
        with open(path, "rb") as file:
            for number in itertools.count(1):
                where = f"{path}, line {number}"
                line = file.readline(MAX_LINE + 1)
                if len(line) > MAX_LINE:
                    raise ConfigError(f"{where}: longer than {MAX_LINE} bytes: damaged")
                if not line.endswith(b"\n"):  # the end, or left by a killed process
                    return
                yield line, schema.check_record(files.parse_line(line, where), where)
    except FileNotFoundError:
        return
    except OSError as error:
        raise files.unreadable(path, error) from None


def _number(value: Any) -> float:
    return value if type(value) in (int, float) and math.isfinite(value) else math.nan
