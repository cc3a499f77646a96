"""Sends a run directory to a destination."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from metaevo.config import files, flatten
from metaevo.config.plain import PlainDict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import check_record, check_tracked
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.remote import About, Remote

ARTIFACTS = (
    "evaluation.json", "trials.csv", "best.yaml", "learning_curves.csv", "figures", "meta_params",
    "report.html",
)  # fmt: skip
"""files and folders that are sent at the end"""


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
        self._job_type = run.path.absolute().parent.name
        self._records = _Tail(run.metrics_path, check_record)
        self._tracked = _Tail(run.tracked_path, check_tracked)
        self._remote: Remote | None = None

    def catch_up(self) -> None:
        """Send the new records; raises any exception of the service's client."""
        lines = list(self._tracked.read())
        self._job_type = next((each["job_type"] for each in lines if "run" in each), self._job_type)
        if records := list(self._records.read()):
            self._open().log(records)
        for line in lines:
            if "child" in line:
                self._send_child(line)

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

    def _send_child(self, line: PlainDict) -> None:
        about, parent = self._about(), self._open().id
        child = dataclasses.replace(
            about,
            id=f"{about.id}-{_word(line['child'])}",
            name=f"{about.name}/{line['child']}",
            job_type=line["job_type"],
            config={**flatten(about.config), **line["config"]},
        )
        remote = open_remote(self._destination, child, parent)
        remote.log(line["records"])
        remote.finish(completed=True)

    def _about(self) -> About:
        saved, path = self._run.read_config(), self._run.path.absolute()
        return About(
            id=_word(saved["resolved"].get("run_id", path.name)),
            name=path.name,
            group=path.name,
            job_type=self._job_type,
            project=self._destination.project,
            config={**saved["config"], "resolved": saved["resolved"]},
            environment=saved["environment"],
            started=datetime.fromisoformat(saved["environment"]["started"]).timestamp(),
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


class _Tail:
    """Reads the lines that are appended to a JSON lines file; a replaced file is read anew."""

    def __init__(self, path: Path, check_line: Callable[[Any, str], PlainDict]) -> None:
        self._path, self._check = path, check_line
        self._position = self._inode = 0

    def read(self) -> Iterator[PlainDict]:
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
