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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from experiments.benchmarks.tables import Cell

SCRIPT = Path(__file__).resolve().parent.parent / "benchmark.py"
Sample = dict[str, float]
"""The numbers of one measurement."""
Labels = tuple[Cell, ...]
"""The case of a variant, and its name."""
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
    """A variant in a separate process, which compiles, and measures on each request."""

    def __init__(self, name: str, variant: Variant):
        """Start the process."""
        # Several processes share an accelerator, so none may allocate its memory in advance.
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        if variant.default_flags:
            environment.pop("XLA_FLAGS", None)
        self._name = name
        self._process = subprocess.Popen(
            variant.command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that its subprocesses end with it
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def measure(self) -> Sample:
        """Make the process measure once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._exited() from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for a line of the process: first its description, then its measurements.

        Raises:
            BenchmarkError: if the process ends instead, or prints something else.
        """
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


class Measured(NamedTuple):
    """The results of a worker."""

    about: dict[str, Any]
    """its description of itself"""
    samples: list[Sample]


def measure(
    variants: Mapping[Labels, Variant], repeats: int, *, at_once: bool = False
) -> tuple[dict[Labels, Measured], list[Labels]]:
    """Measure variants in alternation (A B A B ...), once all have compiled.

    Args:
        variants: variants by their labels.
        repeats: measurements of each.
        at_once: compile all at the same time, instead of one after another.

    Returns:
        The results, without variants that cannot do the work or fail; and the labels of failed
        variants, which are printed.
    """
    measured: dict[Labels, Measured] = {}
    failed: list[Labels] = []

    def fail(labels: Labels, error: BenchmarkError) -> None:
        measured.pop(labels, None)
        failed.append(labels)
        print(f"error: {error}; left out", file=sys.stderr)

    with contextlib.ExitStack() as stack:
        starting = (
            (labels, stack.enter_context(Worker(name_of(labels), variant)))
            for labels, variant in variants.items()
        )
        workers = {}
        for labels, worker in list(starting) if at_once else starting:
            progress(f"{name_of(labels)}: compiles")
            try:
                about = worker.answer()
            except BenchmarkError as error:
                fail(labels, error)
                continue
            if "skip" in about:
                progress(f"{name_of(labels)} is left out: {about['skip']}")
            else:
                workers[labels], measured[labels] = worker, Measured(about, [])
        for repeat in range(repeats):
            for labels in list(measured):
                try:
                    sample = workers[labels].measure()
                except BenchmarkError as error:
                    fail(labels, error)
                    continue
                measured[labels].samples.append(sample)
                text = f"{name_of(labels)}, {repeat + 1} of {repeats}: {sample['seconds']:.3f} s"
                progress(text)
    progress("")
    return measured, failed


def name_of(labels: Labels) -> str:
    """Return the labels of a variant in one text."""
    return ", ".join(map(str, labels))


def progress(text: str) -> None:
    """Show the current step on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"... {text}", file=sys.stderr, flush=True)
