"""The zoo: discovered or published rules that can be loaded by name.

`metaevo.load("zoo:NAME")`, and `--make_optimizer zoo:NAME` in any training, sweep or evolution.

An entry is a folder with `README.md`, `meta_params/` with the arrays, as a run has, `component/`
with the component's source (as text, not as a module of the package) and its card `entry.json`,
whose digests are checked on loading. A published closed form has only a card, which names a
hand-written function.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config import ConfigError, files, show
from metaevo.config.checks import Index
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "entries"
"""The package's own entries."""
CARD = "entry.json"
README = "README.md"
FORMAT = 3
"""Of the cards that this version reads."""


class _Format(TypedDict):
    format: Index


@dataclass(frozen=True)
class Entry:
    """A rule of the zoo."""

    path: Path
    """of its folder, which is laid out as a run"""
    card: PlainDict
    """content of entry.json: slot, learner, component and its settings, origin, comparison"""

    @property
    def name(self) -> str:
        """As one loads it, with `zoo:` before it."""
        return PREFIX + str(self.card["name"])

    @property
    def function(self) -> str | None:
        """The name of the hand-written function, for a published closed form."""
        return None if self.card["function"] is None else str(self.card["function"])

    def source(self) -> tuple[bytes, Path]:
        """Return the source of the component, and the file that holds it."""
        (name,) = (name for name in self.card["files"] if name.startswith("component/"))
        return files.read(self.path / name), self.path / name


def is_name(text: Any) -> bool:
    """Return whether a text names an entry of the zoo."""
    return isinstance(text, str) and text.startswith(PREFIX)


def names() -> list[str]:
    """Return the names of all entries, without `zoo:`."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}"))


def find(name: str) -> Entry:
    """Return an entry after checking its files against the card.

    Args:
        name: with or without `zoo:`.

    Raises:
        ConfigError: if there is none of that name, if its format is newer than this version of
            metaevo, or if it is damaged.
    """
    short = name.removeprefix(PREFIX)
    if short not in names():
        known = [PREFIX + each for each in names()]
        hint = of_value(PREFIX + short, known)
        raise ConfigError(
            f"{show(PREFIX + short)} is not in the zoo{hint}; it has: {', '.join(known)}"
        )
    return _read(FOLDER / short)


def _read(path: Path) -> Entry:
    where = PREFIX + path.name
    card = files.read_json(path / CARD, _Format)
    if card["format"] > FORMAT:
        raise ConfigError(
            f"{where} has format {card['format']}, and this version of metaevo reads formats up to "
            f"{FORMAT}: update metaevo"
        )
    content = {key: value for key, value in card.items() if key != "digest"}
    if card.get("digest") != _digest(content) or card["name"] != path.name:
        raise ConfigError(f"{where} was changed after it was made ({CARD} fits no digest)")
    for name, digest in card["files"].items():
        if _sha256(files.read(files.inside(path, name))) != digest:
            raise ConfigError(f"{where} was changed after it was made ({name} fits no digest)")
    return Entry(path, card)


def is_same(name: str, copy: Path) -> bool:
    """Return whether a folder is a copy of an entry as it is in the zoo now."""
    short = name.removeprefix(PREFIX)
    if short not in names() or not os.path.lexists(copy / CARD):
        return False
    return bool(files.read_json(copy / CARD) == find(name).card)


def _digest(content: PlainDict) -> str:
    return _sha256(json.dumps(content, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
