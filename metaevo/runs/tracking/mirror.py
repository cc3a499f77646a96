"""Brings a destination up to date with a run directory: once, or for as long as the run lasts.

`python -m metaevo.runs.tracking.mirror` is the process that metaevo.runs.tracking.process starts.
It reads on stdin what to mirror, writes to stdout what goes wrong, and imports no JAX.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from metaevo.runs import files
from metaevo.runs.files import locked, open_file
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.backlog import REVISED, Backlog, record_digest
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.service import (
    PermanentError,
    Remote,
    Service,
    Status,
    about_child,
    about_run,
    row_of,
)
from metaevo.runs.tracking.state import State, add, load_state, save_state

LOG = "tracking.log"
"""What the services' libraries print, in the run directory"""
_ROWS_AT_ONCE = 500
_POLL_SECONDS = 1.0
_RETRY_SECONDS = (5.0, 60.0)
_ORPHAN_SECONDS = 20.0
"""that a mirror has left when the run is gone without having said so"""


class Mirror:
    """One run at one destination."""

    def __init__(
        self, run: RunDirectory, destination: Destination, service: Service, *, results: bool
    ) -> None:
        """Take up where the last one left off.

        Args:
            run: the run directory, of which nothing but the state of the mirror is changed.
            destination: where to.
            service: of the destination.
            results: also store what lies in the directory without having been announced.

        Raises:
            ConfigError: if one of the run's files is damaged, or one of its folders a link.
        """
        files.refuse_linked_folders(run.path)  # wandb writes there
        self._run, self._key, self._service = run, destination.key, service
        # What has arrived for sure, and what has at least been handed over.
        self._arrived = load_state(run.path, self._key)
        self._given = self._arrived.copy()
        self._about = about_run(run, destination.project, self._arrived.remote or uuid.uuid4().hex)
        self._remote: Remote | None = None
        self._results = results
        self._backlog = Backlog(run, results=results)

    @property
    def is_up_to_date(self) -> bool:
        """Whether the destination lacks nothing, not even how the run ended."""
        return not self.lacks and self._arrived.status == self._status

    @property
    def lacks(self) -> str:
        """What the destination lacks, in words; nothing if that is nothing."""
        self._backlog.refresh(self._given)
        return str(self._backlog) if self._backlog else ""

    def catch_up(self) -> None:
        """Hand over what is new; raises whatever the service does."""
        self._backlog.refresh(self._given)
        remote = self._remote or self._open()
        self._send_records(remote)
        for name in list(self._backlog.children):
            self._send_child(remote, name)
        for name, artifact in list(self._backlog.artifacts.items()):
            remote.log_artifact(artifact.path, name)
            for state in [self._given, self._arrived] if remote.confirms else [self._given]:
                state.artifacts[name] = artifact.digest
            self._save()
            del self._backlog.artifacts[name]

    def finish(self) -> None:
        """End the run there, after `catch_up`; raises whatever the service does."""
        if self._remote is None:
            return
        self._remote.finish(self._status)
        self._given.status = self._status
        if self._remote.segment is not None:
            self._given.segments.append(self._remote.segment)
        self._arrived, self._remote = self._given.copy(), None
        self._save()

    def begin_again(self) -> bool:
        """After a failure: forget what may not have arrived; False if that is not known."""
        if self._remote is not None and not self._remote.confirms:
            return False
        self._remote, self._given = None, self._arrived.copy()
        self._backlog = Backlog(self._run, results=self._results)
        return True

    @property
    def _status(self) -> Status:
        return "finished" if self._run.report_path.exists() else "stopped"

    def _open(self) -> Remote:
        remote = self._service.open(self._about, self._arrived, None)
        for state in (self._given, self._arrived):
            state.remote, state.status = remote.id, ""
        self._save()
        if remote.rows is not None:
            # What was handed over last, but not confirmed, has arrived after all.
            there = remote.rows - self._given.rows
            self._take(list(self._backlog.records)[: max(0, there)], [self._given, self._arrived])
            self._save()
        self._remote = remote
        return remote

    def _send_records(self, remote: Remote) -> None:
        while keys := list(self._backlog.records)[:_ROWS_AT_ONCE]:
            rows = [row_of(self._backlog.records[key]) for key in keys]
            remote.log(rows, self._given.rows)
            self._take(keys, [self._given, self._arrived] if remote.confirms else [self._given])
            if remote.confirms:
                self._save()

    def _take(self, keys: list[tuple[str, int]], states: list[State]) -> None:
        """Note records as sent, and take them off the list."""
        for kind, index in keys:
            record = self._backlog.records.pop((kind, index))
            for state in states:
                state.rows += 1
                if kind in REVISED:
                    state.revised[f"{kind}/{index}"] = record_digest(record)
                else:
                    add(state.sent.setdefault(kind, []), index)

    def _send_child(self, parent: Remote, name: str) -> None:
        child = self._backlog.children[name]
        about = about_child(self._about, name, child.job_type, child.config)
        remote = self._service.open(about, State(), parent.id)
        rows = [row_of(record) for record in child.records]
        there = remote.rows or 0
        remote.log(rows[there:], there)
        remote.finish("finished")
        for state in (self._given, self._arrived):
            state.children[name] = remote.id
        self._save()
        del self._backlog.children[name]

    def _save(self) -> None:
        save_state(self._run.path, self._key, self._arrived)


def make_service(destination: Destination) -> Service:
    """Import the package of a service, which takes seconds.

    Raises:
        PermanentError: if it is not installed.
    """
    if destination.service == "wandb":
        from metaevo.runs.tracking.wandb_service import WandbService

        return WandbService("online" if destination.where == "online" else "offline")
    from metaevo.runs.tracking.mlflow_service import MlflowService

    return MlflowService(destination.where)


def lock_path(run: Path, destination: Destination) -> Path:
    """Return the file that a mirror of a run holds, one for a service."""
    return run / f".tracking-{destination.service}.lock"


def reason(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{text[:300]} ..." if len(text) > 300 else text or type(error).__name__


class _Orders:
    """What the run says on stdin, read by a thread."""

    def __init__(self, lines: TextIO) -> None:
        self.to_finish = threading.Event()
        threading.Thread(target=self._read, args=[lines], daemon=True).start()

    def _read(self, lines: TextIO) -> None:
        for line in lines:
            if line.strip() == "finish":
                self.to_finish.set()
        # The run is gone: what is there is sent, but nobody waits for it.
        self.to_finish.set()
        threading.Event().wait(_ORPHAN_SECONDS)
        os._exit(1)


def _follow(mirror: Mirror, orders: _Orders, say: Callable[[str], None]) -> int:
    """Mirror until the run ends; return the exit code: 0 if everything has arrived."""
    pause = _RETRY_SECONDS[0]
    while True:
        last = orders.to_finish.is_set()  # before looking: what was logged earlier is seen
        try:
            mirror.catch_up()
            if last:
                mirror.finish()
                return 0
            wait, pause = _POLL_SECONDS, _RETRY_SECONDS[0]
        except Exception as error:
            again = not last and not isinstance(error, PermanentError) and mirror.begin_again()
            say(f"{reason(error)}; {'trying again' if again else 'mirroring is off'}")
            if not again:
                return 1
            wait, pause = pause, min(2 * pause, _RETRY_SECONDS[1])
        orders.to_finish.wait(wait)


def _standard_streams(log: Path) -> tuple[TextIO, TextIO]:
    """Keep stdin and stdout for the run; the libraries get nothing and a file."""
    lines, status = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w", buffering=1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    with open_file(log, "a+b") as file:
        for source, target in ((nothing, 0), (file.fileno(), 1), (file.fileno(), 2)):
            os.dup2(source, target)
    return lines, status


def main() -> int:
    """Mirror what the first line on stdin says; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the run's to stop
    os.nice(10)
    request: dict[str, Any] = json.loads(_read_line(0))
    run, destination = RunDirectory(Path(request["run"])), Destination(**request["destination"])
    lines, status = _standard_streams(run.path / LOG)
    orders = _Orders(lines)

    def say(message: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody listens any more
            print(message, file=status, flush=True)

    try:
        # The mirror of a run that was killed and resumed may still be ending, or a sync be going.
        with locked(lock_path(run.path, destination)):
            mirror = Mirror(run, destination, make_service(destination), results=False)
            return _follow(mirror, orders, say)
    except (OSError, ValueError, PermanentError) as error:
        say(f"{reason(error)}; mirroring is off")
    return 1


def _read_line(descriptor: int) -> bytes:
    """Read a line and no byte more, so that what follows is left to another reader."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            break
        line += byte
    return line


if __name__ == "__main__":
    sys.exit(main())
