"""The interface between the mirror and a tracking service."""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from metaevo.config import ConfigError, merge
from metaevo.runs import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import check_tracked
from metaevo.runs.tracking.state import State

Status = Literal["finished", "stopped"]
"""How a run ended: a stopped one may be resumed."""


class PermanentError(Exception):
    """A failure that trying again does not cure: no package, no account."""


class Row(NamedTuple):
    """The numbers of a record."""

    kind: str
    step: int
    """the record's index"""
    values: dict[str, float]
    """by name; without the index"""
    seconds: float


@dataclass(frozen=True)
class About:
    """What a service gets to know about a run."""

    id: str
    """the same whenever the run is sent; no other run has it"""
    name: str
    group: str
    """the name of the run that it belongs to, its own if that is itself"""
    job_type: str
    project: str
    config: dict[str, Any]
    environment: dict[str, Any]
    """versions, devices, git commit, command line"""
    started: float
    """in seconds since 1970"""
    folder: Path
    """the run directory"""


class Remote(Protocol):
    """A run at a service, open."""

    id: str
    rows: int | None
    """how many it has, if it can tell"""
    confirms: bool
    """whether what a method took has arrived when the method returns; else when `finish` does"""
    segment: str | None
    """the name of the directory that it is written to, if there is one"""

    def log(self, rows: list[Row], first: int) -> None:
        """Send rows, the first of which is the run's row number `first`."""

    def log_artifact(self, path: Path, name: str) -> None:
        """Store a file or a directory."""

    def finish(self, status: Status) -> None:
        """Send what is left."""


class Service(Protocol):
    """Opens runs; any of its methods, and those of its runs, may raise anything, or block."""

    def open(self, about: About, state: State, parent: str | None) -> Remote:
        """Open a run, the one that has this id if the service knows one.

        Args:
            about: the run.
            state: what the service is known to have.
            parent: id at the service of the run that it belongs to, if it is nested.
        """


def row_of(record: dict[str, Any]) -> Row:
    """Return the numbers of a record; texts, truth values and lists are left out."""
    kind = record["kind"]
    values = {
        key: value
        for key, value in record.items()
        if key != kind and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return Row(kind, record[kind], values, float(values.get("seconds", 0.0)))


def about_run(run: RunDirectory, project: str, fallback_id: str) -> About:
    """Return what services get to know about a run.

    Args:
        run: the run.
        project: of wandb, or MLflow's experiment.
        fallback_id: the id of a run that has none of its own.

    Raises:
        ConfigError: if config.yaml is damaged.
    """
    saved = run.read_config()
    environment, resolved = saved["environment"], saved["resolved"]
    if "started" not in environment:
        raise ConfigError(f"{run.config_path}: has no 'environment.started'")
    name = run.path.absolute().name
    return About(
        id=_plain_name(str(resolved.get("run_id", fallback_id))),
        name=name,
        group=name,
        job_type=_job_type(run),
        project=project,
        config={**saved["config"], "resolved": resolved},
        environment=environment,
        started=datetime.fromisoformat(environment["started"]).timestamp(),
        folder=run.path.absolute(),
    )


def about_child(parent: About, name: str, job_type: str, config: dict[str, Any]) -> About:
    """Return the same of a nested run: all settings, with its own in their places.

    Args:
        parent: the run that it belongs to.
        name: in that run.
        job_type: what it is grouped by.
        config: in what it differs, by dotted names.
    """
    settings = parent.config
    for key, value in config.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        settings = merge(settings, value)
    return About(
        id=f"{parent.id}-{_plain_name(name)}",
        name=f"{parent.name}/{name}",
        group=parent.group,
        job_type=job_type,
        project=parent.project,
        config=settings,
        environment=parent.environment,
        started=parent.started,
        folder=parent.folder,
    )


def _job_type(run: RunDirectory) -> str:
    """Return what a run is, as it was said when it began; else what its directory says."""
    if os.path.lexists(run.tracked_path):
        first, end, _ = files.read(run.tracked_path).partition(b"\n")
        if end:
            where = f"{run.tracked_path}, line 1"
            return str(check_tracked(files.parse_line(first, where), where).get("job_type", ""))
    return run.path.absolute().parent.name


def _plain_name(text: str) -> str:
    return re.sub(r"[^\w-]", "_", text)
