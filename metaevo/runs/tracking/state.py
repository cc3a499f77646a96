"""What a service has of a run: `tracking.json` in its directory, an entry for every destination."""

import bisect
import copy
import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len

from metaevo.config import ConfigError, parse_json
from metaevo.runs import files
from metaevo.runs.files import locked, write_json_atomic
from metaevo.runs.schema import Index, Text, check

STATE_FILE = "tracking.json"


@dataclass
class State:
    """What one destination has, as far as it is sure."""

    remote: Text = ""
    """the run's id there"""
    status: Text = ""
    """how the run ended there (metaevo.runs.tracking.service.Status); nothing before that"""
    sent: dict[str, list[Annotated[list[Index], Len(2, 2)]]] = field(default_factory=dict)
    """by kind, the indices of the records there, as [first, last] of every stretch"""
    rows: Index = 0
    """how many records that is"""
    revised: dict[str, str] = field(default_factory=dict)
    """digests of the records that every end of a run writes again, by kind and index"""
    children: dict[str, str] = field(default_factory=dict)
    """nested runs that are complete there, by name: their ids there"""
    artifacts: dict[str, str] = field(default_factory=dict)
    """files and directories there, by path in the run's: their digests"""
    segments: list[str] = field(default_factory=list)
    """directories of wandb's offline runs that are complete"""

    def copy(self) -> "State":
        """Return a state that changes independently of this one."""
        return copy.deepcopy(self)


def has(stretches: list[list[int]], index: int) -> bool:
    """Whether an index is within one of the stretches."""
    position = bisect.bisect_right(stretches, index, key=lambda stretch: stretch[0])
    return position > 0 and index <= stretches[position - 1][1]


def add(stretches: list[list[int]], index: int) -> None:
    """Put an index in, joining the stretches that it connects; they stay sorted."""
    if has(stretches, index):
        return
    position = bisect.bisect_right(stretches, index, key=lambda stretch: stretch[0])
    stretches.insert(position, [index, index])
    for left in (position, position - 1):  # the later pair first: the earlier index stays right
        if 0 <= left < len(stretches) - 1 and stretches[left][1] + 1 == stretches[left + 1][0]:
            stretches[left][1] = stretches.pop(left + 1)[1]


def load_state(run: Path, key: str) -> State:
    """Return what a destination has of a run; nothing, if it was never sent there.

    Raises:
        ConfigError: if the file is damaged.
    """
    entry = _read(run).get(key, {})
    known = {each.name for each in dataclasses.fields(State)}
    if isinstance(entry, dict) and not known.issuperset(entry):
        raise ConfigError(f"{run / STATE_FILE}: {key} is no state of a mirror")
    return State(**check(State, entry, str(run / STATE_FILE), key))


def save_state(run: Path, key: str, state: State) -> None:
    """Write what a destination has of a run beside what the others have."""
    with locked(run / ".tracking.lock"):
        content = _read(run)
        content[key] = dataclasses.asdict(state)
        write_json_atomic(run / STATE_FILE, content)


def _read(run: Path) -> dict[str, Any]:
    path = run / STATE_FILE
    if not os.path.lexists(path):
        return {}
    text = files.read(path)
    try:
        content = parse_json(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: not a JSON object; remove it to send everything again")
    return content
