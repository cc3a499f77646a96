"""Sends a run directory to a destination, through the client of its service."""

import dataclasses
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, files, flatten
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import Child, check_child, check_record
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.remote import About, Remote

ARTIFACTS = (
    "evaluation.json", "trials.csv", "best.yaml", "learning_curves.csv", "figures", "meta_params",
    "report.html",
)  # fmt: skip
"""files and folders that are sent at the end"""
POLL_SECONDS = 1.0
"""between two looks at a run that continues"""


def send(run: RunDirectory, destination: Destination, over: threading.Event | None = None) -> None:
    """Send a run to a destination; with `over`, follow it until the event is set.

    Raises:
        ConfigError: if a file of the run is damaged or a link, or another process sends the run.
            The service's client may raise any other exception, here and below.
    """
    lock = run.path / f".tracking-{destination.service}.lock"
    try:
        with files.locked(lock, wait=False):
            mirror = Mirror(run, destination)
            while over is not None and not over.wait(POLL_SECONDS):
                mirror.catch_up()
            mirror.catch_up()
            mirror.finish()
    except BlockingIOError:
        raise ConfigError(f"{run.path}: another process sends this run at the moment") from None


class Mirror:
    """One run at one destination.

    Records that the service already has are skipped, so a run can be sent any number of times.
    """

    def __init__(self, run: RunDirectory, destination: Destination) -> None:
        """Prepare to send a run; raises `ConfigError` if a file is damaged, or is a link."""
        files.refuse_links(run.path)
        self._run, self._destination = run, destination
        self._opened: Remote | None = None
        self._records = _Tail(run.metrics_path, check_record)
        self._children = _Tail(run.tracked_path, check_child)
        saved, path = run.read_config(), run.path.absolute()
        resolved, environment = saved["resolved"], saved["environment"]
        self._about = About(
            id=_word(resolved.get("run_id", path.name)),
            name=path.name,
            job_type=resolved.get("job_type", path.parent.name),
            project=destination.project,
            config={**saved["config"], "resolved": resolved},
            environment=environment,
            started=datetime.fromisoformat(environment["started"]).timestamp(),
            folder=path,
        )

    def _remote(self) -> Remote:
        """Open the run at the service, the first time."""
        if self._opened is None:
            self._opened = open_remote(self._destination, self._about)
        return self._opened

    def catch_up(self) -> None:
        """Send the new records."""
        if records := list(self._records.read()):
            self._remote().log(records)
        for child in self._children.read():
            if "child" in child:
                self._send_child(child)

    def finish(self) -> None:
        """Send the artifacts and the status, and close the run."""
        for path in (self._run.path / name for name in ARTIFACTS):
            if path.exists():
                self._remote().log_artifact(path)
        self._remote().finish(completed=self._run.report_path.is_file())

    def _send_child(self, child: Child) -> None:
        about, name = self._about, child["child"]
        own = dataclasses.replace(
            about,
            id=f"{about.id}-{_word(name)}",
            name=f"{about.name}/{name}",
            job_type=child["job_type"],
            config={**flatten(about.config), **child["config"]},
        )
        remote = open_remote(self._destination, own, self._remote().id)
        remote.log(child["records"])
        remote.finish(completed=True)


def open_remote(destination: Destination, about: About, parent: str | None = None) -> Remote:
    """Open a run at a service, or continue it; importing its package takes seconds."""
    if destination.service == "wandb":
        from metaevo.runs.tracking.wandb_run import WandbRun

        return WandbRun(about, online=destination.where == "online")
    from metaevo.runs.tracking.mlflow_run import MlflowRun

    return MlflowRun(about, destination.where, parent)


class _Tail:
    """Reads the lines that are appended to a JSON lines file; a replaced file is read anew."""

    def __init__(self, path: Path, check_line: Callable[[Any, str], Any]) -> None:
        self._path, self._check = path, check_line
        self._position = self._inode = 0

    def read(self) -> Iterator[Any]:
        name = str(self._path)
        try:
            with files.open_file(self._path) as file:
                if (inode := os.fstat(file.fileno()).st_ino) != self._inode:
                    self._position, self._inode = 0, inode
                file.seek(self._position)
                while (line := file.readline()).endswith(b"\n"):
                    self._position += len(line)
                    yield self._check(files.parse_line(line, name), name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.unreadable(self._path, error) from None


def _word(text: str) -> str:
    return re.sub(r"[^\w-]", "_", text)
