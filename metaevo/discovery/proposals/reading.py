"""Proposals as lines of JSON. They are data: an expression is parsed, and nothing is executed.

{"expression": "-minimum(ratio, 1 + c) * advantage", "constants": {"c": 0.2}, "name": "a"}
"""

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from metaevo.config import ConfigError, show
from metaevo.config.checks import Number, Text, check
from metaevo.config.files import parse_line
from metaevo.config.plain import PlainMapping
from metaevo.parts.program import Program

MAX_LINE = 2**16
"""most bytes of a line"""
BLOCK = 2**16
"""bytes that are read at once"""
Label = str | int | None


class _Line(TypedDict):
    expression: Text
    constants: NotRequired[dict[str, Number] | None]
    name: NotRequired[Label]
    parent: NotRequired[Label]


@dataclass(frozen=True)
class Proposal:
    """A proposed expression, or the reason why it is none."""

    expression: str | None = None
    constants: dict[str, float] = field(default_factory=dict)
    name: Label = None
    parent: Label = None
    meta_params: Mapping[str, np.ndarray] | None = None
    """the program, if it is one"""
    reason: str | None = None


def read(language: Program, given: str | bytes | PlainMapping) -> Proposal:
    """Return a proposal from an expression, a line of JSON (bytes) or its content.

    Args:
        language: the part.
        given: other keys than those of a proposal are ignored.
    """
    labels: dict[str, Any] = {}
    try:
        data = {"expression": given} if isinstance(given, str) else given
        data = _content(data) if isinstance(data, bytes) else data
        labels = {key: _label(data.get(key)) for key in ("expression", "name", "parent")}
        line = check(_Line, data, "proposal")
        numbers = line.get("constants") or {}
        codes, constants = language.read(line["expression"], numbers)
    except ValueError as error:
        return Proposal(**labels, reason=str(error))
    programs = {"codes": codes[np.newaxis], "constants": constants[np.newaxis]}
    return Proposal(**labels, constants=numbers, meta_params=programs)


def _content(line: bytes) -> PlainMapping:
    """Return the object in a line of JSON."""
    if len(line) > MAX_LINE:
        raise ConfigError(f"line: must have at most {MAX_LINE} bytes")
    content = parse_line(line.removeprefix(codecs.BOM_UTF8), "line")
    if not isinstance(content, dict):
        raise ConfigError(f"line: {show(content)}: not a JSON object")
    return content


def _label(value: Any) -> Any:
    """Return a text or a whole number as it is, and None for anything else."""
    return value if isinstance(value, str | int) else None


def batches(descriptor: int, most: int) -> Iterator[list[bytes]]:
    """Yield the lines that are there, at most `most` at once; wait only if there are none.

    Of a line that is too long only the beginning is kept, so memory is bounded. The last line may
    lack its end.
    """
    unfinished = b""
    while block := os.read(descriptor, BLOCK):
        *lines, unfinished = (unfinished + block).split(b"\n")
        unfinished = unfinished[: MAX_LINE + 1]
        for start in range(0, len(lines), most):
            yield lines[start : start + most]
    if unfinished:
        yield [unfinished]
