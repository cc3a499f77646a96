"""The processes of a benchmark: started, measured in alternation, stopped.

A worker is any command that implements this protocol. After it has compiled and run once, it prints
one line of JSON that describes it: `layout` and, if known, `compile_seconds`; or `{"skip": "why"}`
if it cannot do this work. For each line on its standard input it measures once and answers with a
line of JSON: `seconds` and, if known, `cpu_seconds`, `amount` (of work, if the benchmark cannot
know it), `peak_bytes`. It exits when its input ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

SCRIPT = Path(__file__).resolve().parent.parent / "benchmark.py"
Sample = dict[str, float]
"""The numbers of one measurement."""
Argument = str | int | float | bool | dict[str, int] | None


class BenchmarkError(Exception):
    """A suite cannot continue; the message is a single line."""


@dataclass(frozen=True)
class Variant:
    """How to start a worker."""

    command: list[str]
    default_flags: bool = True
    """start without the XLA flags of this process"""


def own(
    worker: str,
    work: Mapping[str, Argument] | None = None,
    *,
    default_flags: bool = False,
    **arguments: Argument,
) -> Variant:
    """Return a variant that runs in this package.

    Args:
        worker: `module:function` in this folder.
        work: arguments of the function that are common to several variants.
        default_flags: start without the XLA flags of this process.
        arguments: further arguments of the function.
    """
    text = json.dumps({**(work or {}), **arguments})
    return Variant([sys.executable, str(SCRIPT), "--worker", worker, text], default_flags)


class Worker:
    """A variant in a separate process, which compiles and then measures when it is told to."""

    def __init__(self, name: str, variant: Variant):
        """Start the process."""
        # Several processes share an accelerator, so none may allocate its memory in advance.
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        if variant.default_flags:
            environment.pop("XLA_FLAGS", None)
        self.about: dict[str, Any] = {}
        """its description of itself, once it has compiled"""
        self._name = name
        self._process = subprocess.Popen(
            variant.command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # to end what the command has started, too
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._kill()
        self._process.communicate()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the process has compiled.

        Args:
            seconds: how long it may take.

        Raises:
            BenchmarkError: if the process exits before that, or takes longer.
        """
        watch = threading.Timer(seconds or threading.TIMEOUT_MAX, self._kill)
        watch.start()
        try:
            self.about = self._answer()
        finally:
            watch.cancel()

    def measure(self) -> Sample:
        """Make the process measure once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._exited() from None
        return self._answer()

    def _answer(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._exited()
        try:
            return json.loads(line)
        except ValueError:
            raise BenchmarkError(f"{self._name}: not a line of JSON: {line.strip()}") from None

    def _exited(self) -> BenchmarkError:
        return BenchmarkError(f"{self._name}: its process exited with code {self._process.wait()}")


def measure_in_turns(workers: Mapping[str, Worker], repeats: int) -> dict[str, list[Sample]]:
    """Measure all workers in alternation (A B A B ...); return the samples of each."""
    samples: dict[str, list[Sample]] = {name: [] for name in workers}
    for repeat in range(repeats):
        for name, worker in workers.items():
            samples[name].append(worker.measure())
            progress(f"{name}, {repeat + 1} of {repeats}: {samples[name][-1]['seconds']:.3f} s")
    progress("")
    return samples


def progress(text: str) -> None:
    """Show the current step on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"... {text}", file=sys.stderr, flush=True)
