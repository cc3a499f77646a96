"""Numbers as text, for reports, pages, figures and the terminal."""

import math
from collections.abc import Sequence
from numbers import Integral, Real

MISSING = "-"
DIGITS = 4
"""Significant digits of the largest number of a column, which has at most as many decimals."""


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


def estimate(
    value: float, low: float, high: float, *, sign: bool = False, decimals: int | None = None
) -> str:
    """Format a value and its interval with the same decimals: "108.4 [106.0, 110.8]".

    Args:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        sign: whether positive numbers have a sign too, as differences do.
        decimals: of all three; by default two significant digits of the interval's width, but no
            more than `DIGITS` + 1 of the values.
    """
    values, width = (value, low, high), high - low
    if decimals is None and math.isfinite(width) and width > 0:
        largest = max(map(abs, values))
        decimals = max(0, min(1 - _exponent(width), DIGITS - _exponent(largest), 12))
    elif decimals is None:
        decimals = _shared_decimals(values) or 0
    texts = [f"{each:{'+' if sign else ''}z,.{decimals}f}" for each in values]
    middle, *ends = (text if text.strip("+0.") else text.lstrip("+") for text in texts)
    return f"{middle} [{', '.join(ends)}]"


def counted(count: int, noun: str) -> str:
    """Format a number of things: "1 group", "1,200 groups"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def cells(values: Sequence[object]) -> list[str]:
    """Format a table's column; floats, alone or in intervals, share their decimals if possible."""
    parts = [part for value in values for part in (value if _is_interval(value) else [value])]  # type: ignore[attr-defined]
    decimals = _shared_decimals([each for each in parts if _is_float(each)])
    return [cell(value, decimals) for value in values]


def cell(value: object, decimals: int | None = None) -> str:
    """Format one value of a table: numbers, intervals as tuples, "-" for None, else text."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):  # NumPy's scalars too
        plain = float(value)
        is_free = decimals is None or not math.isfinite(plain)
        return number(plain) if is_free else f"{plain:z,.{decimals}f}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(cell(each, decimals) for each in value)}]"
    return str(value)


def _shared_decimals(values: Sequence[float]) -> int | None:
    """Return the decimals that give all values enough digits; None if no number of decimals does.

    The smallest value has at least two significant digits.
    """
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes:
        return 0
    largest, smallest = _exponent(max(sizes)), _exponent(min(sizes))
    decimals = max(0, min(DIGITS - 1, DIGITS - 1 - largest), 1 - smallest)
    return decimals if decimals <= DIGITS and largest < 15 else None


def _exponent(size: float) -> int:
    return math.floor(math.log10(size))


def _is_float(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral)


def _is_interval(value: object) -> bool:
    return isinstance(value, tuple | list)
