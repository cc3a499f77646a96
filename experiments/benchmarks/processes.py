"""The processes of a benchmark, from the side that asks: started, measured in turns, ended.

A worker is any command that speaks this protocol. When it is ready to measure, having compiled and
run once, it prints one line of JSON about itself: `layout` and, where known, `compile_seconds` (of
XLA) and `flops_per_unit` (operations that a unit of the work needs); or `{"skip": "why"}` where it
cannot do this work. For every line that it then reads it measures once and answers with a line of
JSON: `seconds` and, where known, `cpu_seconds`, `peak_bytes` and `amount` (the work done, where the
benchmark cannot know it). It ends with its input.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

SCRIPT = Path(__file__).resolve().parent.parent / "benchmark.py"


class BenchmarkError(Exception):
    """A suite cannot go on; the message is a single line."""


@dataclass(frozen=True)
class Variant:
    """How to start a worker."""

    command: list[str]
    default_flags: bool = True
    """start without the XLA flags of this process"""
    environment: dict[str, str] = field(default_factory=dict)
    """set in addition"""


def own(worker: str, *, default_flags: bool = False, **arguments: Any) -> Variant:
    """Return a variant of ours: a name of the suites' `WORKERS` and its arguments."""
    command = [sys.executable, str(SCRIPT), "--worker", worker, json.dumps(arguments)]
    return Variant(command, default_flags)


class Worker:
    """A variant in a process of its own; it exists from its compilation to the end of the with."""

    def __init__(self, name: str, variant: Variant):
        """Start the process and wait until it has compiled.

        Raises:
            BenchmarkError: if it ends before.
        """
        # Several processes share an accelerator: none may take its memory in advance.
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        if variant.default_flags:
            environment.pop("XLA_FLAGS", None)
        self._name = name
        self._process = subprocess.Popen(
            variant.command,
            env=environment | variant.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.about = self._answer()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measure(self) -> dict[str, float]:
        """Let the process measure once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        try:
            return json.loads(line)
        except ValueError:
            raise BenchmarkError(f"{self._name}: not a line of JSON: {line.strip()}") from None

    def _ended(self) -> BenchmarkError:
        return BenchmarkError(f"{self._name}: its process ended with code {self._process.wait()}")


def alternate(
    workers: Mapping[str, Worker], repeats: int
) -> Iterable[tuple[str, dict[str, float]]]:
    """Measure all workers in turns: A B A B."""
    for repeat in range(repeats):
        for name, worker in workers.items():
            result = worker.measure()
            progress(f"{name}, {repeat + 1} of {repeats}: {result['seconds']:.3f} s")
            yield name, result
    progress("")


def measure_all(workers: Mapping[str, Worker], repeats: int) -> dict[str, list[dict[str, float]]]:
    """Measure all workers in turns; return the results of each."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for name, result in alternate(workers, repeats):
        results[name].append(result)
    return results


def spread(values: Iterable[float]) -> dict[str, float]:
    """The least, the middle and the largest value."""
    values = list(values)
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def progress(text: str) -> None:
    """Say what is going on, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"... {text}", file=sys.stderr, flush=True)
