"""Parts of a report that arrange others: what stands first, side by side, or folded.

They use the style sheet of `metaevo.reports.page`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from metaevo.reports.page import Section


@dataclass(frozen=True)
class Facts:
    """Short facts under the title: when, with which command, how to load."""

    facts: Mapping[str, str]
    code: Sequence[str] = ()
    """names of the facts that are code"""

    def html(self) -> str:
        """The facts as a list of descriptions."""
        rows = "".join(
            f"<dt>{escape(name)}</dt><dd>{self._value(name, text)}</dd>\n"
            for name, text in self.facts.items()
        )
        return f'<dl class="facts">\n{rows}</dl>\n'

    def _value(self, name: str, text: str) -> str:
        if name not in self.code:
            return escape(text)
        words = (f"<span>{escape(word)}</span>" for word in text.split(" "))
        return f"<code>{' '.join(words)}</code>"  # a line breaks between words, not at hyphens


@dataclass(frozen=True)
class Banner:
    """A coloured box with a word, a number and their explanation."""

    kind: Literal["better", "worse", "undecided", "quick"]
    word: str
    number: str
    paragraphs: Sequence[str]

    def html(self) -> str:
        """The box."""
        number = f" <span>{escape(self.number)}</span>" if self.number else ""
        text = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in self.paragraphs)
        return (
            f'<div class="banner {self.kind}"><p class="word"><strong>{escape(self.word)}</strong>'
            f"{number}</p>\n{text}</div>\n"
        )


@dataclass(frozen=True)
class Beside:
    """Parts side by side, where the window is wide enough for that."""

    parts: Sequence[Section]

    def html(self) -> str:
        """The parts in a grid."""
        cells = "".join(f"<div>{part.html()}</div>\n" for part in self.parts)
        return f'<div class="beside">\n{cells}</div>\n'


@dataclass(frozen=True)
class Folded:
    """Parts that show when their heading is clicked."""

    heading: str
    parts: Sequence[Section]

    def html(self) -> str:
        """The parts inside <details>."""
        parts = "".join(part.html() for part in self.parts)
        return f"<details><summary>{escape(self.heading)}</summary>\n{parts}</details>\n"
