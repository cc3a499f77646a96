"""Interface between a mirror and the client of a tracking service."""

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
    group: str
    """name of the outer run, or its own"""
    job_type: str
    project: str
    """wandb's project, MLflow's experiment"""
    config: PlainDict
    environment: PlainDict
    """versions, devices, git commit, command line"""
    started: float
    """seconds since 1970"""
    folder: Path
    """the run directory"""


class Remote(Protocol):
    """An open run at a service. Any method may block, or raise any exception."""

    id: str

    def log(self, records: list[PlainDict]) -> None:
        """Send the numbers in records of metrics.jsonl that the service does not have yet."""

    def log_artifact(self, path: Path) -> None:
        """Store a file or a folder."""

    def finish(self, *, completed: bool) -> None:
        """Send the rest and the status; a run that is not `completed` may be resumed."""


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
