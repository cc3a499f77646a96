"""The zoo: discovered or published rules that can be loaded by name.

`metaevo.load("zoo:NAME")`, and `--make_optimizer zoo:NAME` in any training, sweep or evolution.

An entry is a folder with `README.md`, a card `entry.json`, and `meta_params.npz` as a run has it. A
published closed form has no arrays; its card names a hand-written function.
"""

from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config import ConfigError, files, show

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "entries"
"""The package's own entries."""


class Card(TypedDict):
    """Content of entry.json."""

    title: str
    slot: str
    learner: str | None
    function: str | None
    """the name of the hand-written function, of a published closed form"""
    origin: dict[str, Any]
    """how it was found"""


class Entry(NamedTuple):
    """A rule of the zoo."""

    name: str
    """as one loads it, with `zoo:` before it"""
    path: Path
    """of its folder, which is laid out as a run"""
    card: Card


def is_name(text: Any) -> bool:
    """Return whether a text names an entry of the zoo."""
    return isinstance(text, str) and text.startswith(PREFIX)


def names() -> list[str]:
    """Return the names of all entries, without `zoo:`."""
    return sorted(path.parent.name for path in FOLDER.glob("*/entry.json"))


def find(name: str) -> Entry:
    """Return the entry of a name, with or without `zoo:`.

    Raises:
        ConfigError: if there is none of that name, or its card is damaged.
    """
    short = name.removeprefix(PREFIX)
    if short not in names():
        known = ", ".join(PREFIX + each for each in names())
        raise ConfigError(f"{show(name)} is not in the zoo; it has: {known}")
    return Entry(
        PREFIX + short, FOLDER / short, files.read_json(FOLDER / short / "entry.json", Card)
    )
