"""Numbers as text, for reports, pages, figures and the terminal."""

import math
from collections.abc import Sequence
from numbers import Integral, Real

from metaevo.config.plain import PlainMapping

MISSING = "-"
_DIGITS, _FEWEST, _MOST_DECIMALS = 4, 2, 4
"""Significant digits of the largest number of a column and of the smallest, and its decimals."""


def number(value: float | None) -> str:
    """Format with about four significant digits: 106.0, 0.690, 12,345; "-" for None."""
    if value is None:
        return MISSING
    size = abs(value)
    if not math.isfinite(value) or size >= 1e15:
        return f"{value:.4g}"
    if size >= 9999.5:
        return f"{value:,.0f}"
    if size >= 1:
        return f"{value:#,.4g}".rstrip(".")
    return f"{value:.3f}" if size >= 0.1 else f"{value:z.3g}"


def fixed(value: float, decimals: int, *, sign: bool = False) -> str:
    """Format with a fixed number of decimals; a value that rounds to zero has no sign."""
    text = f"{value:{'+' if sign else ''}z,.{decimals}f}"
    return text.lstrip("+") if not any(digit in text for digit in "123456789") else text


def interval(low: float | None, high: float | None) -> str:
    """Format both ends with the decimals that the width supports: "[106.0, 110.8]"."""
    if low is None or high is None:
        return MISSING
    return f"[{', '.join(_like_width((low, high), low, high))}]"


def estimate(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    sign: bool = False,
    decimals: int | None = None,
) -> str:
    """Format a value and its interval with the same decimals: "108.4 [106.0, 110.8]".

    Args:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        sign: whether positive numbers have a sign too, as differences do.
        decimals: of all three; by default as many as the width supports.
    """
    if value is None or low is None or high is None:
        return number(value)
    if decimals is None:
        middle, *ends = _like_width((value, low, high), low, high, sign=sign)
    else:
        middle, *ends = (fixed(each, decimals, sign=sign) for each in (value, low, high))
    return f"{middle} [{', '.join(ends)}]"


def difference_text(pair: PlainMapping) -> str:
    """Format the `difference` and the `difference_interval` of a judgement: "+4.2 [+1.0, +7.3]"."""
    return estimate(pair["difference"], *pair["difference_interval"], sign=True)


def _like_width(
    values: Sequence[float], low: float, high: float, *, sign: bool = False
) -> list[str]:
    """Show two significant digits of the interval's width, but not too many of the values."""
    width = high - low
    if not all(map(math.isfinite, (width, *values))):
        return [number(value) for value in values]
    if width > 0:
        largest = max(map(abs, values))
        decimals = max(0, min(1 - _exponent(width), _DIGITS - _exponent(largest), 12))
    else:
        decimals = _decimals(values) or 0
    return [fixed(value, decimals, sign=sign) for value in values]


def column(values: Sequence[float | None]) -> list[str]:
    """Format the numbers of a table's column with the same decimals, if one scale fits them."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    decimals = _decimals(known)
    if decimals is None:
        return [number(value) for value in values]
    return [
        number(value) if value is None or not math.isfinite(value) else fixed(value, decimals)
        for value in values
    ]


def _decimals(values: Sequence[float]) -> int | None:
    """Decimals that give all values enough digits; None if no number of decimals does."""
    sizes = [abs(value) for value in values if value != 0]
    if not sizes:
        return 0
    if max(sizes) >= 1e15:
        return None
    largest = max(0, min(_DIGITS - 1, _DIGITS - 1 - _exponent(max(sizes))))
    smallest = _FEWEST - 1 - _exponent(min(sizes))
    if smallest > _MOST_DECIMALS:
        return None
    return max(largest, smallest)


def _exponent(size: float) -> int:
    return math.floor(math.log10(size))


def p_value(p: float) -> str:
    """Format a p-value with three decimals; smaller ones as "< 0.001"."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def counted(count: int, noun: str) -> str:
    """Format a number of things: "1 group", "1,200 groups"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def cell(value: object) -> str:
    """Format one value of a table: numbers, intervals as tuples, "-" for None, else text."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):  # NumPy's scalars too
        return number(float(value))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(cell, value))}]"
    return str(value)


def cells(values: Sequence[object]) -> list[str]:
    """Format a table's column: floats, or intervals of floats, share their decimals."""
    known = [value for value in values if value is not None]
    if known and any(map(_is_float, known)) and all(map(_is_number, known)):
        return column([None if value is None else float(value) for value in values])  # type: ignore[arg-type]
    if known and all(map(_is_interval, known)):
        ends = [end for value in known for end in value]  # type: ignore[attr-defined]
        texts = iter(column([float(end) for end in ends]))
        return [MISSING if value is None else f"[{next(texts)}, {next(texts)}]" for value in values]
    return [cell(value) for value in values]


def _is_float(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_interval(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_number, value))
