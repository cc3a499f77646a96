"""Records of metrics.jsonl: read line by line into columns, in bounded memory."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from metaevo.config import ConfigError, files
from metaevo.runs import schema

FloatArray = NDArray[np.float64]
Values = NDArray[Any] | list[Any]
"""[records] numbers, [records, items] lists of numbers, or anything else as a list"""

MAX_BYTES = 2**32
"""size of the file"""
MAX_LINE = 2**24
"""bytes of a line"""
MAX_VALUES = 2**28
"""values of all records together"""
_BLOCK = 1000
"""records that are dictionaries at a time"""


class Records(Sequence[dict[str, Any]]):
    """Records of one kind, in order. An item is a new dictionary, in which NaN is None."""

    def __init__(self, count: int, columns: dict[str, Values]) -> None:
        """Wrap `columns` of `count` values each, by name."""
        self._count, self._columns = count, columns

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        place = range(self._count)[index]
        return {name: _plain(values[place]) for name, values in self._columns.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Records({self._count} records of {', '.join(self._columns)})"

    @property
    def names(self) -> list[str]:
        """Keys of the records."""
        return list(self._columns)

    def column(self, name: str) -> FloatArray:
        """Return the numbers [records] under a key; NaN for what is missing or no number."""
        values = self._columns.get(name)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return np.where(np.isfinite(values), values, np.nan).astype(np.float64)
        found = np.full(self._count, np.nan)
        if isinstance(values, list):
            for place, value in enumerate(values):
                if type(value) in (int, float) and abs(value) < float("inf"):
                    found[place] = value
        return found

    def matrix(self, name: str) -> FloatArray | None:
        """Return the lists [records, items] under a key; None if they are not all as long."""
        values = self._columns.get(name)
        return values if isinstance(values, np.ndarray) and values.ndim == 2 else None


def read(path: Path, kinds: Iterable[str]) -> dict[str, Records]:
    """Return the records of each of the kinds, without a last line that was cut short.

    Raises:
        ConfigError: if the file is damaged or too large.
    """
    builders = {kind: _Builder(path) for kind in kinds}
    for _, record in lines(path):
        if record["kind"] in builders:
            builders[record["kind"]].add(record)
    return {kind: builder.build() for kind, builder in builders.items()}


def lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each complete line of metrics.jsonl with its record.

    Raises:
        ConfigError: naming the line that is damaged or too long, or if the file is too large.
    """
    if not os.path.lexists(path):
        return
    try:
        with files.open_file(path) as file:
            for number in itertools.count(1):
                where = f"{path}, line {number}"
                line = file.readline(MAX_LINE + 1)
                if len(line) > MAX_LINE:
                    raise ConfigError(f"{where}: longer than {MAX_LINE} bytes: damaged")
                if not line.endswith(b"\n"):  # the end, or a line that a killed process had begun
                    return
                yield line, schema.check_record(files.parse_line(line, where), where)
    except OSError as error:
        raise files.unreadable(path, error) from None


class _Builder:
    """Turns records into columns, block by block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = self._size = 0
        self._block: list[dict[str, Any]] = []
        self._parts: dict[str, list[Values]] = {}
        """by name, the columns of all finished blocks"""

    def add(self, record: dict[str, Any]) -> None:
        self._block.append(record)
        self._count += 1
        if len(self._block) == _BLOCK:
            self._finish_block()

    def build(self) -> Records:
        self._finish_block()
        return Records(self._count, {name: _joined(each) for name, each in self._parts.items()})

    def _finish_block(self) -> None:
        block, self._block = self._block, []
        before = self._count - len(block)
        names = dict.fromkeys(itertools.chain(self._parts, *block))
        for name in names:
            values = _typed([record.get(name) for record in block])
            if name not in self._parts:
                self._parts[name] = [np.full(before, np.nan)] if before else []
                self._size += before
            self._parts[name].append(values)
            self._size += values.size if isinstance(values, np.ndarray) else len(values)
            if self._size > MAX_VALUES:
                raise ConfigError(f"{self._path}: holds more than {MAX_VALUES} values")


def _typed(values: list[Any]) -> Values:
    """Return values as an array if they are numbers, or lists of numbers of the same length."""
    types = {*map(type, values)}
    if types == {int}:
        return _array(values, np.int64)
    if types <= {int, float, type(None)}:
        return _array(values, np.float64)
    if types == {list} and len({*map(len, values)}) == 1:
        types = {*map(type, itertools.chain.from_iterable(values))}
        return _array(values, np.float64) if types <= {int, float, type(None)} else values
    return values


def _array(values: list[Any], dtype: type[np.int64] | type[np.float64]) -> Values:
    try:
        return np.array(values, dtype)
    except OverflowError:  # an integer of more than 64 bits
        return values


def _joined(parts: list[Values]) -> Values:
    """Return the columns of all blocks as one."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and len({part.shape[1:] for part in arrays}) == 1:
        joined: Values = np.concatenate(arrays)
        return joined
    return [_plain(value) for part in parts for value in part]


def _plain(value: Any) -> Any:
    """Return an item of a column as it was logged; NaN as None."""
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
