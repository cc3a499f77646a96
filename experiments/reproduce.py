"""Run a published comparison side by side on this machine.

python experiments/reproduce.py                             # list the comparisons
python experiments/reproduce.py grid-world
python experiments/reproduce.py ppo-cartpole --agents 1 8 64 256 2048
python experiments/reproduce.py ppo-cartpole --no-pytorch --frames 200000

The table is printed and written, with learning curves, to runs/reproduce/NAME/<time> (or --run-dir
DIR).
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

import argparse
import importlib.util
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.benchmarks.tables import Parser, Table, save
from experiments.reproductions import cartpole_dqn, doors, grid_world, ppo
from experiments.reproductions.comparison import Comparison, Row

COMPARISONS: dict[str, Comparison] = {
    "grid-world": grid_world.COMPARISON,
    "cartpole-dqn": cartpole_dqn.COMPARISON,
    "doors-dqn": doors.COMPARISON,
    "ppo-cartpole": ppo.COMPARISON,
}
POINTS = 50
"""Of a learning curve."""


def main(argv: Sequence[str]) -> int:
    """Run the comparison that a command line names."""
    about = "\n".join(f"  {name:14}{each.title}" for name, each in COMPARISONS.items())
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser("reproduce", description=__doc__, epilog=about, formatter_class=formatter)
    add = parser.add_argument
    add("name", choices=COMPARISONS, metavar="NAME", help="the comparison, see below")
    add("--frames", type=int, metavar="N", help="environment steps of one agent")
    text = "how many train at once, a row for each"
    add("--agents", type=int, nargs="+", metavar="N", help=text)
    add("--seed", type=int, default=0, metavar="N", help="of all randomness; default: 0")
    add("--no-pytorch", dest="pytorch", action="store_false", help="only ours")
    add("--run-dir", type=Path, metavar="DIR", help="a new folder for the results")
    options = parser.parse_args(argv or ["--help"])
    comparison = COMPARISONS[options.name]
    agents = options.agents or comparison.agents
    if min(agents) < 1:
        parser.error("--agents: must be greater than 0")
    if (needs := comparison.needs) and options.pytorch and not importlib.util.find_spec(needs):
        hint = f"pip install -e '.[{needs}]', or leave it out with --no-pytorch"
        parser.error(f"{needs} is not installed: {hint}")
    folder = options.run_dir or Path("runs/reproduce", options.name, time.strftime("%Y%m%d-%H%M%S"))
    try:
        settings = comparison.settings(options.frames)
        folder.mkdir(parents=True)
    except metaevo.ConfigError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"--run-dir {folder}: {error.strerror}: must be a new folder")
    print(f"{comparison.title}. Published: {comparison.published}", flush=True)

    def measured() -> Iterator[Row]:
        if options.pytorch:
            yield from comparison.theirs(settings, options.seed)
        for count in agents:
            yield comparison.train(settings, count, options.seed)

    columns = "variant", "steps", "seconds", "seconds to compile", "steps/s", "speedup"
    table, rows = Table(*columns, *comparison.columns), list[Row]()
    for row in measured():
        rows.append(row)
        speed, reference = (each.frames / each.seconds for each in (row, rows[0]))
        table.row(*row[:4], speed, f"{speed / reference:.3g}x", *row.results)
    _draw(rows, settings.train.frames_per_update, folder / "learning_curves.png")
    save(folder / "results.json", comparison.title, table)
    print(f"\nWritten to {folder}")
    return 0


def _draw(rows: Sequence[Row], frames_per_update: int, path: Path) -> None:
    """Draw the mean returns of finished episodes, over agents."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        if row.ended is not None:
            updates = row.ended.shape[-1]
            starts = np.arange(0, updates, every := -(-updates // POINTS))
            episodes, returns = np.add.reduceat(row.ended, starts, axis=-1)
            means = np.where(episodes > 0, returns / np.maximum(episodes, 1), np.nan)
            ends = np.minimum(starts + every, updates) * frames_per_update
            axes.plot(ends, metaevo.statistics.mean_curve(means)[0], label=row.variant)
    axes.set(xlabel="environment steps", ylabel="return of finished episodes")
    axes.legend()
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
