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
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.benchmarks.comparison import peak_mib, rates, spread
from experiments.benchmarks.external import external, externals
from experiments.benchmarks.machine import save
from experiments.benchmarks.processes import Labels, Variant, measure, own
from experiments.benchmarks.tables import Table
from experiments.benchmarks.work import Made, timed
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
    "shaping": (128,),
}
"""Programs of `gpu_programs`, with numbers of agents or candidates."""
TOGETHER = 12
"""Processes at a time; each needs about 3 GB of the host's memory."""
PEERS = "ppo"
"""The program that peers are compared with."""
UPDATES = 30
"""of a peer's training, as in `gpu_programs`"""
REPEATS = 3
COUNTED = ("launches / update", "% in graphs", "syncs / update", "GB / update", "M frames/s")
COLUMNS = (
    "program", "agents", *COUNTED[:-1], "M frames/s, estimated", "measured: median [min, max]",
    "compile, s", "peak MiB",
)  # fmt: skip


def variants(
    program: str, agents: int, peers: Sequence[tuple[str, list[str]]]
) -> dict[Labels, Variant]:
    """Return the variants of a program, with the peers, which are names and commands."""
    found = {program: own("gpu:program", name=program, agents=agents)}
    if program == PEERS:
        options = argparse.Namespace(external=peers)
        found |= externals(options, suite=program, agents=agents, updates=UPDATES)
    return {(name, agents): each for name, each in found.items()}


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
    chosen: dict[Labels, Variant] = {}
    for name in args.programs or PROGRAMS:
        for agents in PROGRAMS[name]:
            chosen |= variants(name, agents, args.external)
    return run(chosen, args.save)


def run(chosen: Mapping[Labels, Variant], path: Path | None) -> int:
    """Measure variants by program and number of agents; return 1 if one failed."""
    table, cases, failures = Table(*COLUMNS), list(chosen.items()), 0
    for start in range(0, len(cases), TOGETHER):
        measured, failed = measure(dict(cases[start : start + TOGETHER]), REPEATS, at_once=True)
        failures += len(failed)
        for labels, (about, samples) in measured.items():
            counted = about.get("row", {})
            table.row(
                *labels,
                *(counted.get(column) for column in COUNTED),
                spread(rate / 1e6 for rate in rates(samples, "seconds")),
                about.get("compile_seconds"),
                peak_mib(samples),
            )
        if path is not None:
            save(path, {"Measured on a GPU": table})
    return int(failures > 0)


# --- In the worker's process ----------------------------------------------------------------------


def program(name: str, agents: int) -> Made:
    """Compile a program for the GPU that is there; the description has its estimated costs."""
    from metaevo.evolution import devices

    devices.setup()
    from experiments.benchmarks.gpu_programs import deviceless
    from experiments.benchmarks.gpu_programs.costs import COLUMNS, row
    from experiments.benchmarks.gpu_programs.programs import PROGRAMS

    target = deviceless.present()
    work = PROGRAMS[name][0](target, agents)
    counted = dict(zip(COLUMNS, row(name, work, target.bandwidth), strict=True))
    amount = work.updates * work.frames
    run = timed(lambda arguments: work.compiled.call(*arguments), work.inputs, amount)
    return run, {"row": counted}


if __name__ == "__main__":
    sys.exit(main())
