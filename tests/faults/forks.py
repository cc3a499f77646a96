"""Processes of the scripts that need not import everything again: forks of one that has.

A script spends most of its start importing libraries. Those that start neither JAX's backend nor
any thread are imported once, here; each process begins as a fork of this one, and the rest of its
start is its own. `python -m tests.faults.forks` reads commands on stdin, a JSON list a line, and
answers with a process id and, when that process has ended, with its exit code.
"""

import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARIES = (
    "scipy.stats", "pandas", "matplotlib.pyplot", "seaborn", "jax", "jax.numpy", "optuna", "plotly",
    "sqlalchemy", "tqdm", "yaml", "flax", "optax",
)  # fmt: skip


class ForkServer:
    """Starts scripts, one at a time."""

    def __init__(self, environment: dict[str, str], cwd: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forks"], env=environment, cwd=cwd, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self, command: list[str]) -> "Fork":
        """Start a command like `[python, "-m", module, ...]`."""
        assert command[1] == "-m", command
        return Fork(self._server, command[2:])

    def end(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


class Fork:
    """What a test needs of a process."""

    def __init__(self, server: "subprocess.Popen[str]", arguments: list[str]) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._lines, self.returncode = server.stdout, None
        self._errors = tempfile.NamedTemporaryFile("r")  # noqa: SIM115
        server.stdin.write(json.dumps([self._errors.name, *arguments]) + "\n")
        server.stdin.flush()
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while the process goes on."""
        if self.returncode is None and select.select([self._lines], [], [], 0)[0]:
            self.returncode = int(self._lines.readline())
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> str:
        """Wait for its end; what it has said on stderr."""
        if self.returncode is None:
            self.returncode = int(self._lines.readline())
        with self._errors:
            return self._errors.read()


def _run(errors: str, module: str, *arguments: str) -> int:
    """Run the module as `python -m` does."""
    nothing, file = os.open(os.devnull, os.O_RDWR), os.open(errors, os.O_WRONLY | os.O_APPEND)
    for source, target in ((nothing, 0), (nothing, 1), (file, 2)):
        os.dup2(source, target)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def main() -> None:
    """Import, then fork as often as asked to."""
    for name in LIBRARIES:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads, which a fork would not have"
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = _run(*json.loads(line))
            finally:
                os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
