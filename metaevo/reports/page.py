"""Reports that are one file: HTML with its figures inside, and the same tables in the terminal.

A report needs no network, no JavaScript and no other file, so it can be mailed or opened years
later. All text is escaped: names come from configs and command lines.
"""

import base64
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

import rich.box
import rich.console
import rich.table
import rich.text

from metaevo.config import files, flatten
from metaevo.config.plain import PlainMapping
from metaevo.reports.numbers import MISSING, cells, difference_text

PathLike = str | os.PathLike[str]

_UNLIMITED = 10_000
"""columns of text that is no terminal's"""
_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"GIF8": "gif"}
_NUMBER = re.compile(r"[\[(]?\s*[+\-\N{MINUS SIGN}]?\.?\d|[+-]?(nan|inf)\b", re.IGNORECASE)

_CSS = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5f6670; --line: #e2e5e9;
  --page: #ffffff; --panel: #f6f7f9; --mark: #fdeee4; --accent: #b84f00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a0a7b1; --line: #353a41;
  --page: #16181b; --panel: #1f2226; --mark: #3a2a1e; --accent: #ff9d5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2.5rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header { border-bottom: 3px solid var(--accent); margin-bottom: 2rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
header p { color: var(--soft); margin: 0 0 1rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .7rem; overflow-wrap: anywhere; }
p { margin: 0 0 .8rem; max-width: 60rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .93rem; min-width: 100%; }
th, td { padding: .4rem .9rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--soft); color: var(--soft); font-weight: 600;
  white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.highlight td { background: var(--mark); font-weight: 600; }
.note, figcaption { color: var(--soft); font-size: .9rem; margin: .6rem 0 0; }
figure { margin: 0; }
img { display: block; width: 100%; height: auto; background: #fff;
  border-radius: 8px; border: 1px solid var(--line); }
details { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem 1rem; margin-top: 2rem; }
summary { cursor: pointer; font-weight: 600; }
details h2 { font-size: 1.05rem; margin-top: 1.5rem; }
.pairs { margin-top: .7rem; min-width: 0; }
.pairs th { font-weight: 400; color: var(--soft); }
.pairs td, code { font-family: ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0 0 1.2rem;
  font-size: .85rem; line-height: 1.45; }
.facts span { display: inline-block; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.banner { --tone: #6b7280; border-left: .5rem solid var(--tone); border-radius: 8px;
  background: color-mix(in srgb, var(--tone) 12%, var(--page)); padding: .8rem 1.2rem .2rem;
  margin-bottom: 1.2rem; }
.banner p { max-width: none; margin-bottom: .5rem; }
.banner .word { font-size: 1.5rem; line-height: 1.3; }
.banner .word strong { color: var(--tone); letter-spacing: .04em; margin-right: .4rem; }
.better { --tone: #16803c; } .worse { --tone: #c62828; } .quick { --tone: #b45309; }
.beside { display: grid; gap: 1rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); margin-bottom: 1rem; }
.beside > div { min-width: 0; }
@media (max-width: 36rem) { body { padding: 1.25rem .9rem; } h1 { font-size: 1.5rem; }
  table { font-size: .82rem; } th, td { padding: .35rem .25rem; }
  thead th, .number { white-space: normal; } .facts { grid-template-columns: 1fr; gap: 0; }
  .facts dd { margin-bottom: .3rem; } }
@media print { body { max-width: none; } details, figure, tr { break-inside: avoid; } }
"""


def difference(pair: PlainMapping) -> str:
    """Describe a difference with its interval in words.

    Args:
        pair: `conclusion`, `difference` and `difference_interval`, as in evaluation.json.
    """
    low, high = pair["difference_interval"]
    text = f"the difference is {difference_text(pair)}"
    if pair["conclusion"] == "undecided" and not low <= 0 <= high:
        return f"{text}, which leaves out zero, but a rank test of the seeds does not confirm it"
    return f"{text} (95% interval)"


def _numeric(texts: Iterable[str]) -> bool:
    """Whether a column reads as numbers, and so is aligned to the right."""
    known = [text for text in texts if text not in ("", MISSING)]
    return bool(known) and all(_NUMBER.match(text) for text in known)


def _terminal_width() -> int | None:
    """Width of the terminal on stdout; None if stdout is no terminal, so files are not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str) -> str:
    """A paragraph in lines that fit the terminal."""
    width = _terminal_width()
    return text if width is None else textwrap.fill(text, min(width, 100))


def _printable(text: str) -> rich.text.Text:
    return rich.text.Text("".join(c if c.isprintable() else "?" for c in text))


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text under a heading."""

    heading: str
    paragraphs: str | Sequence[str]

    def html(self) -> str:
        """The paragraphs, escaped."""
        paragraphs = [self.paragraphs] if isinstance(self.paragraphs, str) else self.paragraphs
        return _heading(self.heading) + "".join(f"<p>{escape(p)}</p>\n" for p in paragraphs)


@dataclass(frozen=True)
class Table:
    """A table; columns of numbers are aligned to the right (see `metaevo.reports.numbers`).

    Its methods raise ValueError if a row does not have one cell for each column.
    """

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    highlight: Collection[int] = ()  # indices of the rows that stand out

    def text(self) -> str:
        """The same table for the terminal, with heading and note; highlighted rows have a ">".

        Characters that are not printable are replaced: a name cannot move the cursor.
        """
        grid = self._grid()
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        table.add_column("")
        for i, name in enumerate(self.columns):
            texts = [row[i] for row in grid]
            numeric = _numeric(texts)
            # Neither an interval nor a word is broken.
            parts = texts if numeric else [word for text in texts for word in text.split()]
            table.add_column(
                _printable(name),
                justify="right" if numeric else "left",
                min_width=max(map(len, parts), default=0),
            )
        for i, row in enumerate(grid):
            table.add_row(">" if i in self.highlight else "", *map(_printable, row))
        printed = io.StringIO()
        width = _terminal_width() or _UNLIMITED
        rich.console.Console(file=printed, width=width, color_system=None).print(table, crop=False)
        lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        return "\n".join(part for part in (self.heading, lines, wrapped(self.note)) if part)

    def html(self) -> str:
        """The table in a box that scrolls sideways on a phone."""
        grid = self._grid()
        right = [_numeric(row[i] for row in grid) for i in range(len(self.columns))]
        classes = [' class="number"' if number else "" for number in right]

        def row(tag: str, texts: Sequence[str], mark: str = "") -> str:
            cells = (
                f"<{tag}{kind}>{escape(text)}</{tag}>"
                for text, kind in zip(texts, classes, strict=True)
            )
            return f"<tr{mark}>{''.join(cells)}</tr>"

        body = "\n".join(
            row("td", texts, ' class="highlight"' if i in self.highlight else "")
            for i, texts in enumerate(grid)
        )
        note = f'<p class="note">{escape(self.note)}</p>\n' if self.note else ""
        return (
            f'{_heading(self.heading)}<div class="wide"><table>\n'
            f"<thead>{row('th', self.columns)}</thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table></div>\n{note}"
        )

    def _grid(self) -> list[tuple[str, ...]]:
        """Return the rows as text."""
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} has {len(row)} cells for {len(self.columns)} columns"
                )
        return list(zip(*(cells(column) for column in zip(*self.rows, strict=True)), strict=True))


@dataclass(frozen=True)
class Image:
    """A PNG or GIF file, read when the report is written and embedded in it."""

    heading: str
    path: PathLike
    caption: str = ""

    def html(self) -> str:
        """The figure as a data URI; ValueError if the file is neither, or cannot be read."""
        data = files.read(Path(self.path))
        kinds = [kind for magic, kind in _KINDS.items() if data.startswith(magic)]
        if not kinds:
            raise ValueError(f"{self.path} is not a PNG or GIF file")
        source = f"data:image/{kinds[0]};base64,{base64.b64encode(data).decode()}"
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        alt = escape(self.caption or self.heading)
        return (
            f'{_heading(self.heading)}<figure><img src="{source}" alt="{alt}">{caption}</figure>\n'
        )


@dataclass(frozen=True)
class KeyValues:
    """A mapping such as a config, folded away; nested mappings get dotted keys."""

    heading: str
    mapping: PlainMapping

    def html(self) -> str:
        """The mapping as a table inside <details>."""
        rows = "".join(
            f'<tr><th scope="row">{escape(key)}</th><td>{escape(str(value))}</td></tr>\n'
            for key, value in flatten(dict(self.mapping)).items()
        )
        return (
            f"<details><summary>{escape(self.heading)}</summary>\n"
            f'<div class="wide"><table class="pairs"><tbody>\n{rows}</tbody></table></div>'
            "</details>\n"
        )


class Section(Protocol):
    """A part of a report; Text, Table, Image and KeyValues are some."""

    def html(self) -> str:
        """The part as HTML, with all text escaped."""


def _heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n" if text else ""


def write_report(path: PathLike, title: str, subtitle: str, sections: Iterable[Section]) -> Path:
    """Write the sections as one HTML file, atomically; returns ``path``.

    Raises:
        ValueError: an image is not a PNG file or cannot be read, or a table's row does not fit its
            columns.
        OSError: the report cannot be written.
    """
    path = Path(path)
    body = "".join(f"<section>\n{section.html()}</section>\n" for section in sections)
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>\n<p>{escape(subtitle)}</p></header>\n"
        f"<main>\n{body}</main>\n</body>\n</html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # File names may hold bytes that are no UTF-8; they are shown escaped rather than refused.
    files.write_atomic(path, page.encode("utf-8", "backslashreplace"))
    return path
