"""Variants of the same work, measured in alternation, and the table of their speeds.

A variant is a command, in a separate process. Once it has compiled and run its work, it prints a
line of JSON that describes it: `layout` and `first_seconds`, if known. For each line on its
standard input it measures once and answers with a line of JSON: `amount` of work (environment
steps), `seconds` and, if known, `cpu_seconds` and `peak_bytes`. It exits when its input ends. `own`
are commands of ours, which `work` answers; others are peers.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.tables import Cell, Table, number

OURS = "ours"
"""The variant that all others are compared with."""
COLUMNS = (
    "suite", "task", "agents", "variant", "steps/s: median [min, max]", "per CPU second",
    f"{OURS} is faster: median [min, max]", "in CPU seconds", "first run, s", "peak MiB", "layout",
)  # fmt: skip
Command = Sequence[str]
Labels = tuple[Cell, ...]
"""Suite, task, number of agents; and the name of a variant."""
Case = tuple[Labels, dict[str, Command]]
"""An amount of work, and variants that do it."""
Answer = dict[str, Any]
"""A line of JSON."""


def variants(
    options: argparse.Namespace, function: str, work: Mapping[str, Any], **fields: Any
) -> dict[str, Command]:
    """Return our command and those of `--against`; and of `--external`, which have `fields`."""
    found = {OURS: own(function, work)}
    found |= {commit: own(function, work, root) for commit, root in options.against}
    for name, words in options.external:
        found[name] = [word.format(**fields) for word in words]
    return found


def own(function: str, arguments: Mapping[str, Any], root: Path = ROOT) -> Command:
    """Return the command that measures a function of experiments/benchmarks in a checkout."""
    script = root / "experiments" / "benchmark.py"
    return [sys.executable, str(script), "--worker", function, json.dumps(arguments)]


def compare(cases: Sequence[Case], table: Table, repeats: int, together: int) -> None:
    """Measure cases, so many at a time, and print a row for each variant.

    The variants measure in turns (A B A B ...) once all have compiled; if there are several cases
    at a time, all compile at once. A ratio is our rate divided by the variant's. It compares
    neighbours in time, because a disturbance affects both.
    """
    for start in range(0, len(cases), together):
        commands = {
            (*labels, name): command
            for labels, variants in cases[start : start + together]
            for name, command in variants.items()
        }
        measured = measure(commands, repeats, at_once=together > 1)
        for (*labels, name), (about, *samples) in measured.items():
            _, *reference = measured.get((*labels, OURS), [about])
            speeds, ratios = [], []
            for key in ("seconds", "cpu_seconds"):
                rates = [each["amount"] / each[key] for each in samples if key in each]
                ours = [each["amount"] / each[key] for each in reference if key in each]
                speeds.append(spread(rates))
                pairs = zip(ours, rates, strict=False)
                ratios.append("" if name == OURS else spread(x / y for x, y in pairs))
            peak = max(each.get("peak_bytes", 0) for each in samples) / 2**20 or None
            known = about.get("first_seconds"), peak, about.get("layout")
            table.row(*labels, name, *speeds, *ratios, *known)


def spread(values: Iterable[float]) -> str:
    """Return `median [min, max]`; an empty text without values."""
    if not (known := sorted(values)):
        return ""
    return f"{number(statistics.median(known))} [{number(known[0])}, {number(known[-1])}]"


def measure(
    commands: Mapping[Labels, Command], repeats: int, *, at_once: bool = False
) -> dict[Labels, list[Answer]]:
    """Return the answers of each command; one that fails is reported and left out."""
    answers: dict[Labels, list[Answer]] = {}

    def step(labels: Labels, ask: Callable[[str], Answer], request: str) -> None:
        name = ", ".join(map(str, labels))
        print(f"... {name}: {'measures' if request else 'compiles'}", file=sys.stderr)
        try:
            answers.setdefault(labels, []).append(ask(request))
        except ValueError as error:
            del answers[labels]
            print(f"error: {name}: {error}; left out", file=sys.stderr)

    with contextlib.ExitStack() as stack:
        starting = (
            (labels, stack.enter_context(process(command))) for labels, command in commands.items()
        )
        started = {}
        for labels, ask in list(starting) if at_once else starting:
            started[labels] = ask
            step(labels, ask, "")
        for _ in range(repeats):
            for labels in list(answers):
                step(labels, started[labels], "\n")
    return answers


@contextlib.contextmanager
def process(command: Command) -> Iterator[Callable[[str], Answer]]:
    """Start a process; yield a function that writes to it and returns its next line.

    The function raises `ValueError` if the process ends instead, or prints something else.
    """
    running = subprocess.Popen(
        command,
        # Several processes share an accelerator, so none may allocate its memory in advance.
        env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its subprocesses end with it
    )
    stdin, stdout = running.stdin, running.stdout
    assert stdin is not None
    assert stdout is not None

    def ask(request: str) -> Answer:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and no line can be read either
            stdin.write(request)
            stdin.flush()
        line = stdout.readline()
        if not line:
            raise ValueError(f"its process exited with code {running.wait()}")
        return json.loads(line)

    try:
        yield ask
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


# --- In our own processes -------------------------------------------------------------------------

Measure = Callable[[int], Answer]
"""`(number of the repetition) -> answer`."""


def timed(work: Callable[[Any], Any], make_input: Callable[[int], Any], amount: float) -> Measure:
    """Return a function that measures one call on a fresh input."""
    import jax

    def measure(repeat: int) -> Answer:
        argument = jax.block_until_ready(make_input(repeat))
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(work(argument))
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount}

    return measure


def work(name: str, arguments: Mapping[str, Any]) -> None:
    """Answer on standard output, by `module:function`, which returns a `Measure` and its layout."""
    import jax

    began = time.perf_counter()
    module, _, function = name.partition(":")
    make = getattr(importlib.import_module(f"experiments.benchmarks.{module}"), function)
    measure, layout = make(**arguments)
    measure(0)
    first = time.perf_counter() - began
    print(json.dumps({"layout": layout, "first_seconds": first}), flush=True)
    for repeat, _ in enumerate(sys.stdin, start=1):
        sample = measure(repeat)
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if jax.default_backend() != "cpu":
            stats = (device.memory_stats() or {} for device in jax.devices())
            peak = sum(each["peak_bytes_in_use"] for each in stats)
        print(json.dumps({**sample, "peak_bytes": peak}), flush=True)
