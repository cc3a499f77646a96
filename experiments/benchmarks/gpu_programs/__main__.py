"""Compile training and evolution for an H100 that need not be there, and count what they cost.

make gpu-programs                                     # installs CUDA's libraries (4 GB)
make gpu-programs ARGS="train/ppo_cartpole shaping/ipd --agents 1 64"

A program is a preset of configs/: an update of a training, or a generation. It is compiled with
the flags that `metaevo` sets (`metaevo.devices.setup`). The optimised program has exact numbers of
kernel launches and host round trips, and the bytes that its kernels read and write.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from metaevo.evolution import devices

devices.setup()

from experiments.benchmarks.gpu_programs.programs import UPDATES, compiled, gpus
from experiments.benchmarks.machine import save
from experiments.benchmarks.tables import Table
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser

PRESETS = (
    "train/ppo_cartpole", "train/ppo_minatar", "train/ppo_memory", "train/dqn_cartpole",
    "train/q_learning_grid_world", "evolve_value_loss/blog", "evolve_optimizer/ppo",
    "evolve_optimizer/open", "evolve_optimizer/tasks", "evolve_drift/ppo", "evolve_lpg/lpg",
    "shaping/ipd", "cheap_talk/cartpole",
)  # fmt: skip


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Compile the programs and print a row for each."""
    parser = Parser("gpu_programs", __doc__)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"default: {PRESETS}")
    parser.add_argument("--agents", type=int, nargs="+", default=(64,), help="or candidates")
    parser.add_argument("--save", type=Path, help="write the table there, for a page")
    args = parser.parse_args(argv)
    columns = "launches / update", "% in graphs", "syncs / update", "GB / update"
    gpu, table = gpus(1), Table("program", "agents", *columns)
    for name in args.presets or PRESETS:
        for agents in args.agents:
            cost = compiled(name, agents, gpu).cost(UPDATES)
            graphed = f"{100 * cost.graphed / cost.launches:.0f}"
            table.row(name, agents, int(cost.launches), graphed, int(cost.syncs), cost.bytes / 1e9)
            if args.save is not None:
                save(args.save, {"Programs for an H100": table})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
