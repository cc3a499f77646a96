"""A run at a tracking service: what is sent, and how services take it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from metaevo.config.plain import PlainDict


@dataclass(frozen=True)
class About:
    """Identity and settings of a run, as services show them."""

    id: str
    """the same whenever the run is sent"""
    name: str
    job_type: str
    project: str
    config: PlainDict
    environment: PlainDict
    """versions, devices, git commit, command line"""
    started: float
    """seconds since 1970"""
    folder: Path
    """the run directory, by whose name services group the run and its nested runs"""


class Remote(Protocol):
    """A run that is open at a service."""

    id: str
    """its id at the service"""

    def log(self, records: list[PlainDict]) -> None:
        """Send records; those that the service already has are skipped."""

    def log_artifact(self, path: Path) -> None:
        """Send a file or a folder."""

    def finish(self, *, completed: bool) -> None:
        """Send the final status, and wait until everything has arrived."""


def numbers_of(record: PlainDict) -> dict[str, float]:
    """Return the numbers of a record as `kind/name`, without its index."""
    kind = record["kind"]
    return {
        f"{kind}/{name}": value
        for name, value in record.items()
        if name != kind and type(value) in (int, float)
    }


def files_in(path: Path) -> list[Path]:
    """Return the finished files at or below a path, in order."""
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return [each for each in found if each.is_file() and not each.name.endswith(".tmp")]
