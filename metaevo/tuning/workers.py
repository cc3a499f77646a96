"""The processes that share a study: their names, and whether they are still alive.

A worker of this machine is dead when its process is gone. One of another machine is dead when its
heartbeat, a counter in the study, does not change for a minute of the observer's own clock: the
clocks of two machines are never compared.
"""

import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

BEAT_SECONDS = 10.0
"""between two heartbeats"""
DEAD_SECONDS = 60.0
"""without a heartbeat, after which a worker counts as dead"""
ENDED = -1
"""The heartbeat of a worker that has left."""

_open_here: set[str] = set()
"""The active workers of this process."""


def new_worker() -> str:
    """Return the name of a new worker: machine, process, when that started, something random."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_started(pid)}/{uuid.uuid4().hex[:8]}"


class Heartbeat:
    """A thread that counts as long as the worker lives."""

    def __init__(self, worker: str, write: Callable[[int], None], seconds: float) -> None:
        self._worker, self._write, self._seconds = worker, write, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first beat, and the next ones in the background."""
        self._write(0)
        _open_here.add(self._worker)
        self._thread.start()

    def end(self) -> None:
        """Stop, and leave the unfinished trials of this worker to the others."""
        self._stop.set()
        self._thread.join()
        _open_here.discard(self._worker)
        self._write(ENDED)

    def _beat(self) -> None:
        count = 0
        while not self._stop.wait(self._seconds):
            count += 1
            try:
                self._write(count)
            except Exception as error:  # a server that is away for a moment ends no training
                print(f"warning: no heartbeat in the study: {error!r}", file=sys.stderr)


class Liveness:
    """What one worker knows of the others."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._seen: dict[str, tuple[int | None, float]] = {}

    def dead(self, workers: set[str], beats: Mapping[str, int]) -> set[str]:
        """Return those that are dead.

        Args:
            workers: their names.
            beats: the last heartbeats of all.
        """
        now = self._clock()
        dead = set()
        for worker in workers:
            beat = beats.get(worker)
            if worker not in self._seen or self._seen[worker][0] != beat:
                self._seen[worker] = (beat, now)
            gone = _is_gone(worker)
            late = now - self._seen[worker][1] > self._seconds
            # A process of this machine that exists may be busy, or stopped, for long.
            if beat == ENDED or gone or (gone is None and late):
                dead.add(worker)
        return dead


def _is_gone(worker: str) -> bool | None:
    """Whether the process of a worker no longer exists; None if that cannot be known here."""
    machine, _, rest = worker.partition("/")
    pid, _, rest = rest.partition("/")
    started, _, _ = rest.partition("/")
    if machine != _machine() or not pid.isdigit() or not started:
        return None
    if int(pid) == os.getpid() and started == _started(os.getpid()):
        return worker not in _open_here
    return _started(int(pid)) != started


def _machine() -> str:
    """Return a name that two processes share only if they see each other's process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux: nothing is known about processes, heartbeats decide
        return f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}".replace("/", "-")
    return f"{socket.gethostname()}-{boot[:8]}-{namespace}".replace("/", "-")


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; empty if it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
