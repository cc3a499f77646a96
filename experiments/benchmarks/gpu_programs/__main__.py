"""Compile training and evolution for a GPU that need not be there, and count what they cost.

make gpu-programs                                                  # with CUDA's libraries (4 GB)
python -m experiments.benchmarks.gpu_programs                      # all programs, for an H100
python -m experiments.benchmarks.gpu_programs ppo dqn --target h200 --agents 1 2048
python -m experiments.benchmarks.gpu_programs --save docs/results/gpu_programs.json

Programs are compiled with the flags that `metaevo` sets (`metaevo.devices.setup`). The optimised
program has exact numbers of kernel launches and host round trips, and the bytes that its kernels
read and write. The estimated speed assumes that a kernel takes max(2 µs, bytes / the memory's
bandwidth, matrix products / 2e13 multiplications per second), inside a CUDA graph or not, and that
a round trip to the host takes 10 µs. It leaves out other arithmetic, caches and launches that
overlap.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# JAX computes on the CPU, and loads CUDA without a device.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

from metaevo.evolution import devices

devices.setup()

from experiments.benchmarks.gpu_programs import deviceless
from experiments.benchmarks.gpu_programs.costs import COLUMNS, row
from experiments.benchmarks.gpu_programs.programs import NEEDS, PROGRAMS
from experiments.benchmarks.machine import save
from experiments.benchmarks.tables import Table
from metaevo.config import ConfigError, exit_on_config_error

NOTE = "Estimated for a GPU that was not there; see the command's help for the assumptions."


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Compile the programs and print a row for each."""
    parser = argparse.ArgumentParser(
        prog="gpu_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--target", default="h100", help=", ".join(deviceless.TARGETS))
    parser.add_argument("--agents", type=int, nargs="+", help="instead of each program's own")
    parser.add_argument("--hlo", type=Path, help="folder for the text of the programs")
    parser.add_argument("--save", type=Path, help="write the table there, for a page")
    args = parser.parse_args(argv)
    if unknown := set(args.programs) - set(PROGRAMS):
        names = ", ".join(PROGRAMS)
        raise ConfigError(f"unknown program {', '.join(sorted(unknown))}; known: {names}")
    if any(agents < 1 for agents in args.agents or ()):
        raise ConfigError(f"--agents {min(args.agents)}: must be at least 1")
    target = deviceless.target(args.target)
    table = Table(*COLUMNS)
    for name in args.programs or PROGRAMS:
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            print(f"{name} is left out: {NEEDS[name]} is not installed", file=sys.stderr)
            continue
        program, default = PROGRAMS[name]
        for agents in args.agents or default:
            work = program(target, agents)
            if args.hlo is not None:
                args.hlo.mkdir(parents=True, exist_ok=True)
                (args.hlo / f"{name}_{agents}.txt").write_text(work.compiled.call.as_text())
            table.row(*row(name, work, target.bandwidth))
            if args.save is not None:
                save(args.save, {f"Programs for the {args.target.upper()}": table}, NOTE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
