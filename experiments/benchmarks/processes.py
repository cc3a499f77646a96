"""The processes of a benchmark, from the side that asks: started, measured in turns, ended."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

SCRIPT = Path(__file__).resolve().parent.parent / "benchmark.py"


class Worker:
    """A variant in a process of its own; it exists from its compilation to the end of the with."""

    def __init__(self, name: str, *, default_flags: bool = False, **arguments: Any):
        """Start the process and wait until it has compiled.

        Args:
            name: a key of WORKERS.
            default_flags: start without the XLA flags of this process.
            arguments: of the worker.
        """
        environment = dict(os.environ)
        if default_flags:
            environment.pop("XLA_FLAGS", None)
        command = [sys.executable, str(SCRIPT), "--worker", name, json.dumps(arguments)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measure(self) -> dict[str, float]:
        """Let the process measure once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a benchmark process ended with code {self._process.wait()}")
        return json.loads(line)


def alternate(workers: dict[str, Worker], repeats: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure all workers in turns."""
    for _ in range(repeats):
        for name, worker in workers.items():
            yield name, worker.measure()


def spread(values: list[float]) -> dict[str, float]:
    """The least, the middle and the largest value."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def progress(text: str) -> None:
    """Say what is going on, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"... {text}", file=sys.stderr, flush=True)
