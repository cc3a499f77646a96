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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaevo.config import PlainMapping, files, flatten

if TYPE_CHECKING:
    from metaevo.runs.run_directory import RunDirectory

TEMPLATE = Path(__file__).with_suffix(".html")
MISSING = "-"
DIGITS = 4
"""Significant digits of the largest number of a column, which has at most as many decimals."""
_UNLIMITED = 10_000
"""Columns of text that is not in a terminal."""
_NUMBER = re.compile(r"[\[(]?\s*[+\-\N{MINUS SIGN}]?\.?\d|[+-]?(nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text under a heading; those of a kind are in a coloured box."""

    heading: str
    paragraphs: Sequence[str]
    kind: str = ""
    """better, worse, undecided or quick"""

    def text(self) -> str:
        """The paragraphs for the terminal."""
        first = [f"{self.heading}:"] if self.heading else []
        return _printed(_printable(" ".join([*first, *self.paragraphs])))


@dataclass(frozen=True)
class Table:
    """A table; columns of numbers are aligned to the right."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    highlight: Collection[int] = ()
    """indices of the rows that stand out"""
    folded: bool = False
    """shown when its heading is clicked, and not in the terminal"""
    kind = ""

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
            width = max(map(len, texts if numeric else " ".join(texts).split()), default=0)
            side: Any = "right" if numeric else "left"
            table.add_column(_printable(name), justify=side, min_width=width)
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
    kind: str = "half"
    """half of the page, next to another one, or wide"""

    @property
    def source(self) -> str:
        """The file as a data URI; `ConfigError` if it cannot be read."""
        path = Path(self.path)
        return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(files.read(path)).decode()}"


Section = Text | Table | Image


def folded(heading: str, mapping: PlainMapping) -> Table:
    """Return a mapping such as a config as a folded table; nested mappings get dotted keys."""
    rows = [[key, str(value)] for key, value in flatten(dict(mapping)).items()]
    return Table(heading, ["", ""], rows, folded=True)


def write_report(path: Path, title: str, subtitle: str, sections: Sequence[Section]) -> None:
    """Write the sections as one HTML file, atomically, and print them.

    Texts and tables that are not folded are printed, those in a box last, and the path. The
    subtitle is a line below the title.

    Raises:
        ConfigError: an image cannot be read.
        OSError: the report cannot be written.
    """
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    page = template.render(title=title, subtitle=subtitle, sections=sections)
    # File names may hold bytes that are not UTF-8, which are escaped.
    files.write_atomic(path, page.encode("utf-8", "backslashreplace"))
    shown = [each for each in sections if isinstance(each, Text | Table)]
    for section in sorted(shown, key=lambda each: each.kind != ""):
        if not getattr(section, "folded", False):
            print(f"\n{section.text()}")
    print(f"\nreport: {path}")


def write_run_report(
    directory: "RunDirectory",
    title: str,
    subtitle: str,
    conclusions: Sequence[Section],
    sections: Sequence[Section],
    captions: Mapping[str, str],
    wide: Collection[str] = (),
) -> None:
    """Write a run's report.html, with its figures, settings and environment; print its text.

    Args:
        directory: of the run.
        title: title.
        subtitle: a line below it.
        conclusions: verdicts, which a quick look does not have.
        sections: texts and tables.
        captions: of figures by file name; these are the first, in this order.
        wide: names of figures that are as wide as the page, as films are.
    """
    from metaevo.runs.run import is_quick

    saved = directory.read_config()
    if is_quick(saved["config"]):
        from metaevo.runs.quick import NOTE

        conclusions = [Text("Quick look: too few seeds to conclude", [NOTE], "quick")]
    figures = {path.name: path for path in sorted(directory.figures.glob("*.[pg][ni][gf]"))}
    images = [
        Image(
            figures[name].stem.replace("_", " ").capitalize(),
            figures[name],
            captions.get(name, ""),
            "wide" if name in wide or name.endswith(".gif") else "half",
        )
        for name in dict.fromkeys([*captions, *figures])
        if name in figures
    ]
    environment = {**saved["resolved"], **saved["environment"]}
    about = [folded("Settings", saved["config"]), folded("Environment", environment)]
    every = [*conclusions, *sections, *images, *about]
    write_report(directory.report_path, title, subtitle, every)


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


def estimate(
    found: tuple[float, tuple[float, float]], *, sign: bool = False, decimals: int | None = None
) -> str:
    """Format a value and its interval with the same decimals: "108.4 [106.0, 110.8]".

    By default these are two significant digits of the interval's width, but no more than
    `DIGITS` + 1 of the values. With `sign`, positive numbers have one too, as differences do.
    """
    value, (low, high) = found
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
    floats = [float(each) for each in parts
              if isinstance(each, Real) and not isinstance(each, Integral)]  # fmt: skip
    decimals = _shared_decimals(floats)
    return [cell(value, decimals) for value in values]


def cell(value: object, decimals: int | None = None) -> str:
    """Format one value of a table: numbers, intervals as tuples, "-" for None, else text.

    Floats have so many decimals; by default about four significant digits: 106.0, 0.690, 12,345.
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(cell(each, decimals) for each in value)}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):  # NumPy's scalars too
        size = float(value)
        decimals = _shared_decimals([size]) if decimals is None else decimals
        is_long = decimals is None or not math.isfinite(size)
        return f"{size:.4g}" if is_long else f"{size:z,.{decimals}f}"
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
