"""A mirror's process, seen from the run: started, listened to, asked to finish, ended."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from metaevo.runs.tracking.destination import Destination

_PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent.parent


def warn(message: str) -> None:
    """Say in one line on stderr, around a progress bar if there is one, what went wrong."""
    tqdm.write(f"warning: {' '.join(message.split())}", file=sys.stderr)


class MirrorProcess:
    """Runs metaevo.runs.tracking.mirror for one destination.

    A process and not a thread: whatever blocks, holds Python's lock or crashes in there, the run
    does not notice. It is started afresh, not forked, because JAX's threads do not survive a fork.
    """

    def __init__(self, run: Path, destination: Destination) -> None:
        self.destination = destination
        self._said = self._ended = False
        path = os.pathsep.join([str(_PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "metaevo.runs.tracking.mirror"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            # Ctrl-C in a terminal reaches the whole foreground group: not this process.
            start_new_session=True,
        )
        # Not as an argument, because a URI may hold a password.
        self._write(json.dumps({"run": str(run.absolute()), "destination": asdict(destination)}))
        self._thread = threading.Thread(target=self._listen, name="mirror", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask_to_finish(self) -> None:
        """Let it send what is left, and end."""
        self._write("finish")

    def join(self, *, until: float) -> bool:
        """Wait for its end until a time of the monotonic clock; return whether it came."""
        self._thread.join(max(0.0, until - time.monotonic()))
        return not self._thread.is_alive()

    def end(self) -> None:
        """End it if it has not ended, with the processes that it has started."""
        self._ended = True
        if self._process.poll() != 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._thread.join()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `_listen` says
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        """Pass on the first warning; a line is a warning."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._warn(line)
        code = self._process.wait()
        if code and not self._ended:
            self._warn(f"the mirror has ended ({_reason(code)}), the run goes on")

    def _warn(self, message: str) -> None:
        if not self._said:
            warn(f"{self.destination.label}: {message}")
        self._said = True


def _reason(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
