"""Variants of the same work, measured in alternation, and the table of their speeds.

A variant is a command, in a separate process. Once it has compiled and run its work, it prints a
line of JSON that describes it: `layout` and `first_seconds`, if known. For each line on its
standard input it measures once and answers with a line of JSON: `amount` of work (environment
steps), `seconds` and, if known, `cpu_seconds` and `peak_bytes`. It exits when its input ends. `own`
are commands of ours, which `work` answers; others are peers.
"""

import argparse
import contextlib
import itertools
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
from unittest import mock

from experiments.benchmarks.tables import ROOT, Cell, Table, interval

OURS = "ours"
"""The variant that all others are compared with."""
COLUMNS = (
    "suite", "task", "agents", "variant", "steps/s: median [min, max]", "per CPU second",
    f"{OURS} is faster: median [min, max]", "in CPU seconds", "first run, s", "peak MiB", "layout",
)  # fmt: skip
Command = Sequence[str]
Case = tuple[tuple[Cell, ...], dict[str, Command]]
"""An amount of work (suite, task, number of agents), and variants that do it."""
Answer = dict[str, Any]
"""A line of JSON."""


def variants(
    options: argparse.Namespace, function: str, work: Mapping[str, Any], **fields: Any
) -> dict[str, Command]:
    """Return our commands and those of `--against`; and of `--external`, which have `fields`."""
    found = {OURS: own(function, work)}
    if options.without_kernels:
        found["XLA's kernels"] = own(function, {**work, "kernels": False})
    found |= {commit: own(function, work, root) for commit, root in options.against}
    for name, words in options.external:
        found[name] = [word.format(**fields) for word in words]
    return found


def own(function: str, arguments: Mapping[str, Any], root: Path = ROOT) -> Command:
    """Return the command that measures a function of experiments/benchmarks in a checkout."""
    script = root / "experiments" / "benchmark.py"
    return [sys.executable, str(script), "--worker", function, json.dumps(arguments)]


def compare(cases: Sequence[Case], table: Table, repeats: int) -> None:
    """Measure cases and print a row for each variant.

    The variants of a case measure in turns (A B A B ...) once all have compiled. A ratio is our
    rate divided by the variant's. It compares neighbours in time, because a disturbance affects
    both.
    """
    for labels, commands in cases:
        measured = measure(commands, repeats)
        for name, (about, *samples) in measured.items():
            _, *reference = measured.get(OURS, [about])
            speeds, ratios = [], []
            for key in ("seconds", "cpu_seconds"):
                rates, ours = (
                    [each["amount"] / each[key] for each in answers if key in each]
                    for answers in (samples, reference)
                )
                pairs = zip(ours, rates, strict=False) if name != OURS else ()
                speeds.append(spread(rates))
                ratios.append(spread(x / y for x, y in pairs))
            peak = max(each.get("peak_bytes", 0) for each in samples) / 2**20 or None
            known = about.get("first_seconds"), peak, about.get("layout")
            table.row(*labels, name, *speeds, *ratios, *known)


def spread(values: Iterable[float]) -> str:
    """Return `median [min, max]`; an empty text without values."""
    if not (known := sorted(values)):
        return ""
    return interval(statistics.median(known), known[0], known[-1])


def measure(commands: Mapping[str, Command], repeats: int) -> dict[str, list[Answer]]:
    """Return the answers of each command; one that fails is reported and left out."""
    answers: dict[str, list[Answer]] = {name: [] for name in commands}
    ask: dict[str, Callable[[str], Answer]] = {}
    with contextlib.ExitStack() as stack:
        for request, name in itertools.product(("", *["\n"] * repeats), commands):
            if name not in answers:
                continue
            if not request:
                ask[name] = stack.enter_context(process(commands[name]))
            print(f"... {name}: {'measures' if request else 'compiles'}", file=sys.stderr)
            try:
                answers[name].append(ask[name](request))
            except ValueError as error:
                del answers[name]
                print(f"error: {name}: {error}; left out", file=sys.stderr)
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


def work(make: Callable[..., tuple[Measure, str]], arguments: dict[str, Any]) -> None:
    """Answer on standard output; `make` returns what measures, and its layout.

    With `"kernels": false`, XLA computes what our own kernels for a GPU would.
    """
    import jax

    began = time.perf_counter()
    if not arguments.pop("kernels", True):
        from purerl.fast import switch

        mock.patch.object(switch, "has_triton", return_value=False).start()
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
