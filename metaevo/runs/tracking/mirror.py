"""Sends a run directory to a destination, through the client of its service."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from metaevo.config import files, flatten
from metaevo.config.plain import PlainDict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import Child, check_child, check_record
from metaevo.runs.tracking.destination import Destination

ARTIFACTS = (
    "evaluation.json", "trials.csv", "best.yaml", "learning_curves.csv", "figures", "meta_params",
    "report.html",
)  # fmt: skip
"""files and folders that are sent at the end"""


@dataclass(frozen=True)
class About:
    """Identity and settings of a run, as services show them."""

    id: str
    """the same whenever the run is sent"""
    name: str
    job_type: str
    project: str
    """wandb's project, MLflow's experiment"""
    config: PlainDict
    environment: PlainDict
    """versions, devices, git commit, command line"""
    started: float
    """seconds since 1970"""
    folder: Path
    """the run directory, by whose name services group the run and its nested runs"""


class Remote(Protocol):
    """An open run at a service. Any method may block, or raise any exception."""

    id: str

    def log(self, records: list[PlainDict]) -> None:
        """Send the numbers in records of metrics.jsonl that the service does not have yet."""

    def log_artifact(self, path: Path) -> None:
        """Store a file or a folder."""

    def finish(self, *, completed: bool) -> None:
        """Send the rest and the status; a run that is not `completed` may be resumed."""


class Mirror:
    """One run at one destination.

    Records that the service already has are skipped, so a run can be sent any number of times.
    """

    def __init__(self, run: RunDirectory, destination: Destination) -> None:
        """Prepare to send a run.

        Raises:
            ConfigError: if a file of the run is damaged, or is a link.
        """
        files.refuse_links(run.path)
        self._run, self._destination = run, destination
        self._records = _Tail(run.metrics_path, check_record)
        self._children = _Tail(run.tracked_path, check_child)
        self._remote: Remote | None = None

    def catch_up(self) -> None:
        """Send the new records; raises any exception of the service's client."""
        if records := list(self._records.read()):
            self._open().log(records)
        for child in self._children.read():
            if "child" in child:
                self._send_child(child)

    def finish(self) -> None:
        """Send the artifacts and the status, and close the run; raises as `catch_up` does."""
        remote = self._open()
        for path in (self._run.path / name for name in ARTIFACTS):
            if path.exists():
                remote.log_artifact(path)
        remote.finish(completed=self._run.report_path.is_file())
        self._remote = None

    def _open(self) -> Remote:
        if self._remote is None:
            self._remote = open_remote(self._destination, self._about())
        return self._remote

    def _send_child(self, child: Child) -> None:
        about, parent = self._about(), self._open().id
        own = dataclasses.replace(
            about,
            id=f"{about.id}-{_word(child['child'])}",
            name=f"{about.name}/{child['child']}",
            job_type=child["job_type"],
            config={**flatten(about.config), **child["config"]},
        )
        remote = open_remote(self._destination, own, parent)
        remote.log(child["records"])
        remote.finish(completed=True)

    def _about(self) -> About:
        saved, path = self._run.read_config(), self._run.path.absolute()
        resolved, environment = saved["resolved"], saved["environment"]
        return About(
            id=_word(resolved.get("run_id", path.name)),
            name=path.name,
            job_type=resolved.get("job_type", path.parent.name),
            project=self._destination.project,
            config={**saved["config"], "resolved": resolved},
            environment=environment,
            started=datetime.fromisoformat(environment["started"]).timestamp(),
            folder=path,
        )


def open_remote(destination: Destination, about: About, parent: str | None = None) -> Remote:
    """Open a run at a service; importing its package takes seconds."""
    if destination.service == "wandb":
        from metaevo.runs.tracking.wandb_run import WandbRun

        return WandbRun(about, online=destination.where == "online")
    from metaevo.runs.tracking.mlflow_run import MlflowRun

    return MlflowRun(about, destination.where, parent)


def lock_path(run: Path, destination: Destination) -> Path:
    """Return the file that a mirror of a run locks."""
    return run / f".tracking-{destination.service}.lock"


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


class _Tail:
    """Reads the lines that are appended to a JSON lines file; a replaced file is read anew."""

    def __init__(self, path: Path, check_line: Callable[[Any, str], Any]) -> None:
        self._path, self._check = path, check_line
        self._position = self._inode = 0

    def read(self) -> Iterator[Any]:
        try:
            with files.open_file(self._path) as file:
                if (inode := os.fstat(file.fileno()).st_ino) != self._inode:
                    self._position, self._inode = 0, inode
                file.seek(self._position)
                while (line := file.readline()).endswith(b"\n"):
                    self._position += len(line)
                    yield self._check(files.parse_line(line, str(self._path)), str(self._path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.unreadable(self._path, error) from None


def _word(text: str) -> str:
    return re.sub(r"[^\w-]", "_", text)
