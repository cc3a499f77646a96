"""Reports that are one HTML file with its figures inside, and the same tables in the terminal.

A report needs no network, no JavaScript and no other file. All text is escaped: names come from
configs and command lines. Numbers have about four significant digits.
"""

import base64
import io
import math
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from metaevo.config import PlainMapping, files, flatten

TEMPLATE = Path(__file__).with_suffix(".html")
MISSING = "-"
DIGITS = 4
"""Significant digits of the largest number of a column, which has at most as many decimals."""
_UNLIMITED = 10_000
"""Columns of text that is not in a terminal."""
_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"GIF8": "gif"}
_NUMBER = re.compile(r"[\[(]?\s*[+\-\N{MINUS SIGN}]?\.?\d|[+-]?(nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text under a heading; those of a kind are in a coloured box."""

    heading: str
    paragraphs: Sequence[str]
    box: str = ""
    """better, worse, undecided or quick"""

    @property
    def kind(self) -> str:
        """Class in the style sheet."""
        return f"box {self.box}" if self.box else ""

    def text(self) -> str:
        """The paragraphs for the terminal."""
        first = [f"{self.heading}:"] if self.heading else []
        return _printed(_printable(" ".join([*first, *self.paragraphs])))


@dataclass(frozen=True)
class Table:
    """A table; columns of numbers are aligned to the right.

    Raises:
        ValueError: if a row does not have one cell for each column.
    """

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    highlight: Collection[int] = ()
    """indices of the rows that stand out"""
    folded: bool = False
    """shown when its heading is clicked, and not in the terminal"""
    kind = ""

    def __post_init__(self) -> None:
        for at, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {at} has {len(row)} cells for {len(self.columns)} columns")

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows as text."""
        return list(zip(*(cells(column) for column in zip(*self.rows, strict=True)), strict=True))

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column reads as numbers."""
        known = [{row[i] for row in self.texts} - {"", MISSING} for i in range(len(self.columns))]
        return [bool(each) and all(map(_NUMBER.match, each)) for each in known]

    def text(self) -> str:
        """The same table for the terminal, with heading and note; highlighted rows have a ">"."""
        import rich.box
        import rich.table

        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        table.show_header = any(self.columns)
        table.add_column("")
        for i, (name, numeric) in enumerate(zip(self.columns, self.numeric, strict=True)):
            texts = [row[i] for row in self.texts]
            # Neither an interval nor a word is broken.
            parts = texts if numeric else [word for text in texts for word in text.split()]
            width, side = max(map(len, parts), default=0), "right" if numeric else "left"
            table.add_column(_printable(name), justify=side, min_width=width)  # type: ignore[arg-type]
        for i, row in enumerate(self.texts):
            table.add_row(">" if i in self.highlight else "", *map(_printable, row))
        notes = [_printed(_printable(self.note))] if self.note else []
        return "\n".join([*filter(None, [self.heading]), _printed(table), *notes])


@dataclass(frozen=True)
class Image:
    """A PNG or GIF file, read when the report is written and embedded in it."""

    heading: str
    path: str | Path
    caption: str = ""
    wide: bool = False
    """not next to another one"""

    @property
    def kind(self) -> str:
        """Class in the style sheet."""
        return "wide" if self.wide else "half"

    @property
    def source(self) -> str:
        """The file as a data URI; ValueError if it is neither format, or cannot be read."""
        data = files.read(Path(self.path))
        for magic, kind in _KINDS.items():
            if data.startswith(magic):
                return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
        raise ValueError(f"{self.path} is not a PNG or GIF file")


Section = Text | Table | Image


def about(saved: PlainMapping) -> list[Table]:
    """Return the settings and the environment in a run's config.yaml, folded."""
    environment = {**saved["resolved"], **saved["environment"]}
    return [folded("Settings", saved["config"]), folded("Environment", environment)]


def folded(heading: str, mapping: PlainMapping) -> Table:
    """Return a mapping such as a config as a folded table; nested mappings get dotted keys."""
    rows = [[key, str(value)] for key, value in flatten(dict(mapping)).items()]
    return Table(heading, ["", ""], rows, folded=True)


def images(folder: Path, captions: Mapping[str, str], *, wide: Collection[str] = ()) -> list[Image]:
    """Return the figures in a folder, those with a caption first and in their order.

    Films and those with a name in `wide` are as wide as the page.
    """
    paths = {
        path.name: path for kind in ("png", "gif") for path in sorted(folder.glob(f"*.{kind}"))
    }
    return [
        Image(
            paths[name].stem.replace("_", " ").capitalize(),
            paths[name],
            captions.get(name, ""),
            wide=name in wide or name.endswith(".gif"),
        )
        for name in dict.fromkeys([*captions, *paths])
        if name in paths
    ]


def write_report(
    path: str | Path, title: str, subtitle: str, sections: Iterable[Section], *, show: bool = False
) -> Path:
    """Write the sections as one HTML file, atomically; return its path.

    Args:
        path: of the file.
        title: title.
        subtitle: a line below it.
        sections: of the page.
        show: print texts and tables that are not folded, those in a box last.

    Raises:
        ValueError: an image is not a PNG or GIF file, or cannot be read.
        OSError: the report cannot be written.
    """
    import jinja2

    path, sections = Path(path), list(sections)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    page = template.render(title=title, subtitle=subtitle, sections=sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    # File names may hold bytes that are not UTF-8, which are escaped.
    files.write_atomic(path, page.encode("utf-8", "backslashreplace"))
    if show:
        shown = [each for each in sections if isinstance(each, Text | Table)]
        for section in sorted(shown, key=lambda each: each.kind != ""):
            if not getattr(section, "folded", False):
                print(f"\n{section.text()}")
        print()
    return path


def _printable(text: str) -> Any:
    """Return text that cannot move the cursor."""
    import rich.text

    return rich.text.Text("".join(c if c.isprintable() else "?" for c in text))


def _printed(renderable: Any) -> str:
    """Return text or a table as lines that fit the terminal; files are not wrapped."""
    import rich.console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
    printed = io.StringIO()
    rich.console.Console(file=printed, width=width, color_system=None).print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


# --- Numbers as text ----------------------------------------------------------------------------


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
    parts: list[Any] = []
    for value in values:
        parts += value if isinstance(value, tuple | list) else [value]
    floats = [each for each in parts if isinstance(each, Real) and not isinstance(each, Integral)]
    decimals = _shared_decimals([float(each) for each in floats])
    return [cell(value, decimals) for value in values]


def cell(value: object, decimals: int | None = None) -> str:
    """Format one value of a table: numbers, intervals as tuples, "-" for None, else text."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(cell(each, decimals) for each in value)}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):  # NumPy's scalars too
        plain = float(value)
        is_free = decimals is None or not math.isfinite(plain)
        return number(plain) if is_free else f"{plain:z,.{decimals}f}"
    return MISSING if value is None else str(value)


def _shared_decimals(values: Sequence[float]) -> int | None:
    """Return the decimals that give all values enough digits; None if no number of decimals does.

    The smallest value has two significant digits or more.
    """
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes:
        return 0
    largest, smallest = _exponent(max(sizes)), _exponent(min(sizes))
    decimals = max(0, min(DIGITS - 1, DIGITS - 1 - largest), 1 - smallest)
    return decimals if decimals <= DIGITS and largest < 15 else None


def _exponent(size: float) -> int:
    return math.floor(math.log10(size))
