"""The zoo: discovered or published rules that can be loaded by name.

`metaevo.load("zoo:NAME")`, and `--make_optimizer zoo:NAME` in any training, sweep or evolution.

An entry is a folder with `README.md`, a card `entry.json`, and `meta_params.npz` as a run has it:
arrays with the name and the settings of the part, and the tasks that it has seen. A published
closed form has no arrays; its card names a hand-written function.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config import ConfigError, files, show
from metaevo.config.plain import of_value

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "entries"
"""The package's own entries."""
CARD = "entry.json"
README = "README.md"


class Card(TypedDict):
    """Content of entry.json."""

    title: str
    slot: str
    learner: str | None
    function: str | None
    """the name of the hand-written function, of a published closed form"""
    origin: dict[str, Any]
    """how it was found"""


@dataclass(frozen=True)
class Entry:
    """A rule of the zoo."""

    path: Path
    """of its folder, which is laid out as a run"""
    card: Card

    @property
    def name(self) -> str:
        """As one loads it, with `zoo:` before it."""
        return PREFIX + self.path.name


def is_name(text: Any) -> bool:
    """Return whether a text names an entry of the zoo."""
    return isinstance(text, str) and text.startswith(PREFIX)


def names() -> list[str]:
    """Return the names of all entries, without `zoo:`."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}"))


def find(name: str) -> Entry:
    """Return an entry.

    Args:
        name: with or without `zoo:`.

    Raises:
        ConfigError: if there is none of that name, or its card is damaged.
    """
    short = name.removeprefix(PREFIX)
    if short not in names():
        known = [PREFIX + each for each in names()]
        hint = of_value(PREFIX + short, known)
        raise ConfigError(
            f"{show(PREFIX + short)} is not in the zoo{hint}; it has: {', '.join(known)}"
        )
    return Entry(FOLDER / short, files.read_json(FOLDER / short / CARD, Card))
