"""Reports that are one file: HTML with its figures inside, and the same tables in the terminal.

A report needs no network, no JavaScript and no other file, so it can be mailed or opened years
later. All text is escaped: names come from configs and command lines.
"""

import base64
import io
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from metaevo.config import files, flatten
from metaevo.config.plain import PlainMapping
from metaevo.reports.numbers import MISSING, cells

TEMPLATE = Path(__file__).with_suffix(".html")
_UNLIMITED = 10_000
"""columns of text that is no terminal's"""
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
    """A table; columns of numbers are aligned to the right (see `metaevo.reports.numbers`).

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
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} has {len(row)} cells for {len(self.columns)} columns"
                )

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
        """The same table for the terminal, with heading and note; highlighted rows have a ">".

        Characters that are not printable are replaced: a name cannot move the cursor.
        """
        import rich.box
        import rich.table

        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        table.show_header = any(self.columns)
        table.add_column("")
        for i, (name, numeric) in enumerate(zip(self.columns, self.numeric, strict=True)):
            texts = [row[i] for row in self.texts]
            # Neither an interval nor a word is broken.
            parts = texts if numeric else [word for text in texts for word in text.split()]
            table.add_column(
                _printable(name),
                justify="right" if numeric else "left",
                min_width=max(map(len, parts), default=0),
            )
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


@dataclass(frozen=True)
class Html:
    """Markup under a heading, which is not escaped."""

    heading: str
    markup: str
    kind = ""


Section = Text | Table | Image | Html


def folded(heading: str, mapping: PlainMapping) -> Table:
    """Return a mapping such as a config as a folded table; nested mappings get dotted keys."""
    rows = [[key, str(value)] for key, value in flatten(dict(mapping)).items()]
    return Table(heading, ["", ""], rows, folded=True)


def about(saved: PlainMapping) -> list[Table]:
    """Return the settings and the environment in a run's config.yaml, folded."""
    environment = {**saved["resolved"], **saved["environment"]}
    return [folded("Settings", saved["config"]), folded("Environment", environment)]


def images(folder: Path, captions: Mapping[str, str], *, wide: Collection[str] = ()) -> list[Image]:
    """Return the figures in a folder, those with a caption first and in their order.

    Films and those with a name in `wide` are as wide as the page.
    """
    found = [path.name for kind in ("png", "gif") for path in sorted(folder.glob(f"*.{kind}"))]
    names = [name for name in captions if name in found]
    names += [name for name in found if name not in captions]
    headings = {name: Path(name).stem.replace("_", " ").capitalize() for name in names}
    return [
        Image(
            headings[name],
            folder / name,
            captions.get(name, ""),
            wide=name in wide or name.endswith(".gif"),
        )
        for name in names
    ]


def write_report(
    path: str | Path, title: str, subtitle: str, sections: Iterable[Section], *, show: bool = False
) -> Path:
    """Write the sections as one HTML file, atomically; returns ``path``.

    Args:
        path: of the file.
        title: title.
        subtitle: a line below it.
        sections: of the page.
        show: print texts and tables that are not folded, the first one last.

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
    # File names may hold bytes that are no UTF-8; they are shown escaped rather than refused.
    files.write_atomic(path, page.encode("utf-8", "backslashreplace"))
    if show:
        for section in reversed(sections):
            if isinstance(section, Text) or (isinstance(section, Table) and not section.folded):
                print(f"\n{section.text()}")
        print()
    return path


def _printable(text: str) -> Any:
    import rich.text

    return rich.text.Text("".join(c if c.isprintable() else "?" for c in text))


def _printed(renderable: Any) -> str:
    """Return text or a table as lines that fit the terminal; files are not wrapped."""
    import rich.console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
    printed = io.StringIO()
    rich.console.Console(file=printed, width=width, color_system=None).print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
