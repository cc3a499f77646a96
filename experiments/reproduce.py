"""Run a published comparison side by side on this machine.

python experiments/reproduce.py                             # list the comparisons
python experiments/reproduce.py grid-world
python experiments/reproduce.py ppo-cartpole --agents 1 8 64 256 2048
python experiments/reproduce.py ppo-cartpole --no-pytorch --frames 200000
python experiments/reproduce.py doors-dqn --help            # its options

The table is printed and written, with a figure, to runs/reproduce/NAME/<time> (or --run-dir DIR).
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import metaevo

# Compiles loops of any size into one function, where XLA's CPU backend dispatches every operation,
# which costs more than the operations of tabular learning. Networks are not affected.
LOOP_FLAG = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=100000000"
if __name__ == "__main__":  # before anything starts JAX
    if sys.argv[1:2] == ["grid-world"]:
        os.environ["XLA_FLAGS"] = f"{LOOP_FLAG} {os.environ.get('XLA_FLAGS', '')}"
    metaevo.devices.setup()

import importlib.util
from collections.abc import Sequence

from matplotlib.figure import Figure

from experiments.benchmarks.tables import Parser, Table, save
from experiments.reproductions import cartpole_dqn, doors, grid_world, ppo_curves
from experiments.reproductions.comparison import Comparison, Row

COMPARISONS: dict[str, Comparison] = {
    "grid-world": grid_world.COMPARISON,
    "cartpole-dqn": cartpole_dqn.COMPARISON,
    "doors-dqn": doors.COMPARISON,
    "ppo-cartpole": ppo_curves.COMPARISON,
}


def main(argv: Sequence[str]) -> int:
    """Run the comparison that a command line names."""
    if not argv or argv[0] in ("-h", "--help"):
        print(f"{__doc__}\ncomparisons:")
        for name, each in COMPARISONS.items():
            print(f"  {name:22}{each.title}")
        return 0
    name, *rest = argv
    parser = Parser(f"reproduce {name}")
    if name not in COMPARISONS:
        parser.error(f"unknown comparison {name!r}; known: {', '.join(COMPARISONS)}")
    comparison = COMPARISONS[name]
    parser.description = f"{comparison.title}. Published: {comparison.published}"
    add = parser.add_argument
    text, frames = "environment steps of one agent; default: %(default)s", comparison.settings()
    add("--frames", type=int, default=frames.train.total_timesteps, metavar="N", help=text)
    text = "how many train at once, a row for each; default: %(default)s"
    add("--agents", type=int, nargs="+", default=comparison.agents, metavar="N", help=text)
    add("--seed", type=int, default=0, metavar="N", help="of all randomness; default: 0")
    add("--no-pytorch", dest="pytorch", action="store_false", help="leave PyTorch out (PPO)")
    default = Path("runs/reproduce", name, time.strftime("%Y%m%d-%H%M%S"))
    add("--run-dir", type=Path, default=default, metavar="DIR", help="default: %(default)s")
    options = parser.parse_args(rest)
    if min(options.frames, *options.agents) < 1:
        parser.error("--frames, --agents: must be greater than 0")
    for package in comparison.packages if options.pytorch else ():
        if importlib.util.find_spec(package) is None:
            parser.error(
                f"{package} is not installed: pip install -e '.[{package}]', or leave it out with "
                "--no-pytorch"
            )
    try:
        comparison.settings(options.frames)  # checks them before anything is written
        options.run_dir.mkdir(parents=True)
    except (metaevo.ConfigError, OSError) as error:
        parser.error(str(error))
    print(parser.description, flush=True)
    columns = "variant", "steps", "seconds", "seconds to compile", "steps/s", "speedup"
    table, rows = Table(*columns, *comparison.columns), list[Row]()
    for row in comparison.rows(options):
        rows.append(row)
        speed, reference = (each.frames / each.seconds for each in (row, rows[0]))
        table.row(*row[:4], speed, f"{speed / reference:.3g}x", *row.results)
    _draw(rows, comparison.ylabel, options.run_dir / "learning_curves.png")
    save(options.run_dir / "results.json", comparison.title, table)
    print(f"\nWritten to {options.run_dir}")
    return 0


def _draw(rows: Sequence[Row], ylabel: str, path: Path) -> None:
    """Draw the learning curves, the mean over agents, if there are any."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        if row.curve is not None:
            steps, values = row.curve
            axes.plot(steps, metaevo.statistics.mean_curve(values)[0], label=row.variant)
    if axes.lines:
        axes.set(xlabel="environment steps", ylabel=ylabel)
        axes.legend()
        figure.savefig(path, dpi=200)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
