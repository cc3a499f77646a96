"""Brings a destination up to date with a run directory."""

import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, files, flatten
from metaevo.config.checks import Text, check
from metaevo.runs import metrics
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import check_record, check_tracked
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.remote import About, Remote

RESULTS = ("evaluation.json", "learning_curves.csv", "figures", "meta_params", "report.html")
"""artifacts that `metaevo sync` sends even if the run never announced them"""
_CHILDREN = "tracked_children.json"
_BATCH = 500


class Mirror:
    """One run at one destination.

    A service is asked for the records that it has, so a run may be sent any number of times. Only
    the names of complete nested runs are kept in the directory.
    """

    def __init__(self, run: RunDirectory, destination: Destination, *, results: bool) -> None:
        """Prepare to send a run.

        Args:
            run: a run directory.
            destination: service, place and project.
            results: also send artifacts that the run has not announced.

        Raises:
            ConfigError: if a file of the run is damaged, or a folder is a link.
        """
        files.refuse_linked_folders(run.path)  # wandb writes there
        self._run, self._destination, self._results = run, destination, results
        self._children = set(_load(run.path).get(destination.key, []))
        self._job_type = run.path.absolute().parent.name
        self._tracked = _Tail(run.tracked_path, check_tracked)
        self._records = _Tail(run.metrics_path, check_record)
        self._remote: Remote | None = None

    def catch_up(self) -> None:
        """Send what is new; raises any exception of the service's client."""
        lines = list(self._tracked.read())
        self._job_type = next((each["job_type"] for each in lines if "run" in each), self._job_type)
        records = self._records.read()
        while batch := list(itertools.islice(records, _BATCH)):
            self._open().log(batch)
        for line in lines:
            if "child" in line and line["child"] not in self._children:
                self._send_child(line)
        announced = [line["artifact"] for line in lines if "artifact" in line]
        for name in dict.fromkeys([*announced, *(RESULTS if self._results else ())]):
            path = files.inside(self._run.path, name)
            if contents := files.contents(path) if path.exists() else {}:
                self._open().log_artifact(name, contents)

    def finish(self) -> None:
        """Send the final status and close the run there; raises as `catch_up` does."""
        self._open().finish(completed=os.path.isfile(self._run.report_path))
        self._remote = None

    def _open(self) -> Remote:
        if self._remote is None:
            self._remote = open_remote(self._destination, self._about())
        return self._remote

    def _send_child(self, line: dict[str, Any]) -> None:
        about, parent, name = self._about(), self._open().id, line["child"]
        child = dataclasses.replace(
            about,
            id=f"{about.id}-{_plain(name)}",
            name=f"{about.name}/{name}",
            job_type=line["job_type"],
            config={**flatten(about.config), **line["config"]},
        )
        remote = open_remote(self._destination, child, parent)
        remote.log(line["records"])
        remote.finish(completed=True)
        self._children.add(name)
        with files.locked(self._run.path / ".tracking.lock"):
            content = {**_load(self._run.path), self._destination.key: sorted(self._children)}
            files.write_json_atomic(self._run.path / _CHILDREN, content)

    def _about(self) -> About:
        saved = self._run.read_config()
        environment, path = saved["environment"], self._run.path.absolute()
        if "started" not in environment:
            raise ConfigError(f"{self._run.config_path}: has no 'environment.started'")
        known = f"{environment['started']} {environment.get('command_line')}"
        fallback = hashlib.sha256(known.encode()).hexdigest()[:32]
        return About(
            id=_plain(str(saved["resolved"].get("run_id", fallback))),
            name=path.name,
            group=path.name,
            job_type=self._job_type,
            project=self._destination.project,
            config={**saved["config"], "resolved": saved["resolved"]},
            environment=environment,
            started=datetime.fromisoformat(environment["started"]).timestamp(),
            folder=path,
        )


def open_remote(destination: Destination, about: About, parent: str | None = None) -> Remote:
    """Open a run at a service; imports its package, which takes seconds."""
    if destination.service == "wandb":
        from metaevo.runs.tracking.wandb_run import WandbRun

        return WandbRun(about, online=destination.where == "online")
    from metaevo.runs.tracking.mlflow_run import MlflowRun

    return MlflowRun(about, destination.where, parent)


def lock_path(run: Path, destination: Destination) -> Path:
    """Return the file that a mirror of a run locks."""
    return run / f".tracking-{destination.service}.lock"


def one_line(error: BaseException) -> str:
    """Return the message of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{text[:300]} ..." if len(text) > 300 else text or type(error).__name__


class _Tail:
    """Reads what is appended to a file of JSON lines; a file that replaces it is read anew."""

    def __init__(self, path: Path, check_line: Callable[[Any, str], dict[str, Any]]) -> None:
        self._path, self._check = path, check_line
        self._position = self._line = self._inode = 0

    def read(self) -> Iterator[dict[str, Any]]:
        try:
            with files.open_file(self._path) as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._position:
                    self._position, self._line, self._inode = 0, 0, status.st_ino
                files.check_size(self._path, status.st_size, metrics.MAX_BYTES)
                file.seek(self._position)
                while (line := file.readline(metrics.MAX_LINE)).endswith(b"\n"):
                    self._position, self._line = self._position + len(line), self._line + 1
                    where = f"{self._path}, line {self._line}"
                    yield self._check(files.parse_line(line, where), where)
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.unreadable(self._path, error) from None


def _load(run: Path) -> dict[str, list[str]]:
    """Return the names of the nested runs that are complete, by destination."""
    path = run / _CHILDREN
    found = files.read_json(path, dict[str, Any]) if os.path.lexists(path) else {}
    return {key: check(list[Text], names, str(path), key) for key, names in found.items()}


def _plain(text: str) -> str:
    return re.sub(r"[^\w-]", "_", text)
