"""Measure training and evolution on this machine's GPU, next to the estimated speeds.

python -m experiments.benchmarks.gpu --save docs/results/gpu.json
python -m experiments.benchmarks.gpu ppo dqn --external 'PureJaxRL=peer.sh {agents} {updates}'

Programs compile several at a time, each in a separate process; then they are measured in turns. A
row has the counts of `python -m experiments.benchmarks.gpu_programs` for the program as compiled
here, the estimated speed and the measured one.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import rates, spread
from experiments.benchmarks.external import external, externals
from experiments.benchmarks.machine import save
from experiments.benchmarks.processes import (
    BenchmarkError,
    Sample,
    Variant,
    Worker,
    measure_in_turns,
    own,
    progress,
)
from experiments.benchmarks.tables import Cell, Table, number
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser

PROGRAMS = {
    "ppo": (1, 64, 2048, 16384),
    "evolve-value-loss": (512,),  # as in PureJaxRL's blog, with shorter trainings
    "dqn": (1, 64),
    "ppo-breakout": (1, 64),
    "ppo-recurrent": (2048,),
    "optimizer": (64,),
    "open": (64,),
    "drift": (64,),
    "lpg": (64,),
    "q-learning": (2048,),
    "evolve-optimizer": (64,),
    "evolve-tasks": (64,),
    "coin": (64,),
    "shaping": (128,),
}
"""Programs of `gpu_programs`, with numbers of agents or candidates."""
TOGETHER = 12
"""Processes at a time; each needs about 3 GB of the host's memory."""
PEERS = "ppo"
"""The program that peers are compared with."""
UPDATES = 30
"""of a peer's training, as in `gpu_programs`"""
COMPILE_SECONDS = 120
"""for all programs that compile at the same time"""
REPEATS = 3
COUNTED = ("launches / update", "% in graphs", "syncs / update", "GB / update", "M frames/s")
COLUMNS = (
    "program", "agents", *COUNTED[:-1], "M frames/s, estimated", "measured: median [min, max]",
    "compile, s", "peak MiB",
)  # fmt: skip

Case = tuple[str, int]
"""A program, and its number of agents or candidates."""


def variants(
    program: str, agents: int, peers: Sequence[tuple[str, list[str]]]
) -> dict[str, Variant]:
    """Return the variants of a program by name, with the peers, which are names and commands."""
    ours = own("gpu_programs.present:program", name=program, agents=agents)
    if program != PEERS:
        return {program: ours}
    options = argparse.Namespace(external=peers)
    return {program: ours, **externals(options, suite=program, agents=agents, updates=UPDATES)}


@exit_on_config_error()
def main(argv: Sequence[str] | None = None) -> int:
    """Compile and measure the programs; return 1 if a program failed."""
    parser = Parser("gpu", __doc__)
    parser.prog = "experiments.benchmarks.gpu"
    names = ", ".join(PROGRAMS)
    add = parser.add_argument
    add("programs", nargs="*", metavar="PROGRAM", help=names)
    text = f"also measure this worker next to {PEERS}, see benchmarks/processes.py"
    add("--external", type=external, action="append", default=[], metavar="NAME=COMMAND", help=text)
    add("--save", type=Path, metavar="FILE", help="write the table there, for a page")
    args = parser.parse_args(argv)
    if unknown := set(args.programs) - set(PROGRAMS):
        raise ConfigError(f"unknown program {', '.join(sorted(unknown))}; known: {names}")
    # In a new process, because JAX would allocate the memory of the GPU in this one.
    ask = [sys.executable, "-c", "import jax; print(jax.devices()[0].platform)"]
    if "gpu" not in subprocess.run(ask, capture_output=True, text=True, check=False).stdout:
        raise ConfigError("JAX sees no GPU here; pip install 'metaevo[cuda12]'")
    chosen = {
        (name, agents): variants(name, agents, args.external)
        for name in args.programs or PROGRAMS
        for agents in PROGRAMS[name]
    }
    return run(chosen, args.save)


def run(chosen: Mapping[Case, Mapping[str, Variant]], path: Path | None) -> int:
    """Measure the variants of each case; return 1 if a variant failed."""
    failures = 0
    table = Table(*COLUMNS)

    def failed(case: Case, error: BenchmarkError) -> None:
        nonlocal failures
        failures += 1
        print(f"error: {case[0]}, {case[1]} agents: {error}; left out", file=sys.stderr)

    for wave in waves(chosen):
        with ExitStack() as stack:
            started = {
                case: {name: stack.enter_context(Worker(name, each)) for name, each in some.items()}
                for case, some in wave.items()
            }
            end = time.monotonic() + COMPILE_SECONDS
            for case, workers in started.items():
                for name, worker in list(workers.items()):
                    progress(f"{name}, {case[1]} agents: compiles")
                    try:
                        worker.wait(max(end - time.monotonic(), 1.0))
                    except BenchmarkError as error:
                        failed(case, error)
                        del workers[name]
                    if "skip" in worker.about:
                        progress(f"{name} is left out: {worker.about['skip']}")
                        del workers[name]
            for case, workers in started.items():
                try:
                    samples = measure_in_turns(workers, REPEATS)
                except BenchmarkError as error:
                    failed(case, error)
                    continue
                for name, each in samples.items():
                    table.row(*row(name, case[1], workers[name].about, each))
                if path is not None:
                    save(path, {"Measured on a GPU": table})
    return int(failures > 0)


def waves(
    chosen: Mapping[Case, Mapping[str, Variant]],
) -> Iterator[dict[Case, Mapping[str, Variant]]]:
    """Yield the cases that compile at the same time: up to `TOGETHER` variants, or one case."""
    wave: dict[Case, Mapping[str, Variant]] = {}
    for case, some in chosen.items():
        if wave and sum(map(len, wave.values())) + len(some) > TOGETHER:
            yield wave
            wave = {}
        wave[case] = some
    yield wave


def row(name: str, agents: int, about: Mapping[str, Any], samples: Sequence[Sample]) -> list[Cell]:
    """Return the cells of `COLUMNS`."""
    millions = spread(rate / 1e6 for rate in rates(samples, "seconds"))
    counted = about.get("row", dict[str, str]())
    return [
        name,
        agents,
        *(counted.get(column) for column in COUNTED),
        str(millions),
        about.get("compile_seconds"),
        number(max(each.get("peak_bytes", 0.0) for each in samples) / 2**20, 4),
    ]


if __name__ == "__main__":
    sys.exit(main())
