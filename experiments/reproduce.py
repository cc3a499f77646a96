"""Run a published comparison side by side on this machine.

python experiments/reproduce.py                             # list the comparisons
python experiments/reproduce.py grid-world
python experiments/reproduce.py ppo-cartpole --agents 1 8 64 256 2048
python experiments/reproduce.py ppo-cartpole --no-pytorch --frames 200000
python experiments/reproduce.py doors-dqn --help            # its options

The table is printed and written, with figures, to runs/reproduce/NAME/<time> (or --run-dir DIR).
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metaevo.evolution import devices

# Compiles loops of any size into one function, where XLA's CPU backend dispatches every operation,
# which costs more than the operations of tabular learning. Networks are not affected.
LOOP_FLAG = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=100000000"
if __name__ == "__main__":  # before anything starts JAX
    if sys.argv[1:2] == ["grid-world"]:
        os.environ["XLA_FLAGS"] = f"{LOOP_FLAG} {os.environ.get('XLA_FLAGS', '')}"
    devices.setup()

import importlib.util
from collections.abc import Sequence

from experiments.benchmarks.tables import Table, save
from experiments.reproductions import cartpole_dqn, doors, grid_world, ppo_curves
from experiments.reproductions.comparison import Comparison, Row, settings_of
from metaevo.config import ConfigError, exit_on_config_error, find_preset, load_yaml, merge
from metaevo.config.command_line import Parser
from metaevo.config.plain import of_value
from metaevo.reports.policies import plot_learning_curves
from metaevo.runs.run_directory import RunDirectory

COMPARISONS: dict[str, Comparison] = {
    "grid-world": grid_world.COMPARISON,
    "cartpole-dqn": cartpole_dqn.COMPARISON,
    "doors-dqn": doors.COMPARISON,
    "ppo-cartpole": ppo_curves.COMPARISON,
}


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Run the comparison that a command line names."""
    if not argv or argv[0] in ("-h", "--help"):
        print(f"{__doc__}\ncomparisons:")
        for name, each in COMPARISONS.items():
            print(f"  {name:22}{each.title}")
        return 0
    name, *rest = argv
    if name not in COMPARISONS:
        hint, known = of_value(name, COMPARISONS), ", ".join(COMPARISONS)
        raise ConfigError(f"unknown comparison {name!r}{hint}; known: {known}")
    comparison = COMPARISONS[name]
    description = f"{comparison.title}. Published: {comparison.published}"
    raw = load_yaml(find_preset(comparison.config))
    parser = Parser(f"reproduce {name}", description)
    add = parser.add_argument
    text = "environment steps of one agent; default: %(default)s"
    add("--frames", type=int, default=raw["train"]["total_timesteps"], metavar="N", help=text)
    text = "how many train at once, a row for each; default: %(default)s"
    add("--agents", type=int, nargs="+", default=comparison.agents, metavar="N", help=text)
    add("--seed", type=int, default=0, metavar="N", help="of all randomness; default: 0")
    add("--no-pytorch", dest="pytorch", action="store_false", help="leave PyTorch out (PPO)")
    text = f"default: runs/reproduce/{name}/<timestamp>"
    add("--run-dir", type=Path, metavar="DIR", help=text)
    options = parser.parse_args(rest)
    if min(options.frames, *options.agents) < 1:
        raise ConfigError("--frames, --agents: must be greater than 0")
    for package in comparison.packages if options.pytorch else ():
        if importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"{package} is not installed: pip install -e '.[{package}]', or leave it out with "
                "--no-pytorch"
            )
    raw = merge(raw, {"train": {"total_timesteps": options.frames}})
    settings_of(raw)  # checks them before anything is written
    run = RunDirectory.create(options.run_dir, f"reproduce/{name}")
    chosen = {key: value for key, value in vars(options).items() if key != "run_dir"}
    run.write_config(chosen, {"comparison": name})
    print(description, flush=True)
    columns = "variant", "steps", "seconds", "seconds to compile", "steps/s", "speedup"
    table, rows = Table(*columns, *comparison.columns), list[Row]()
    for row in comparison.rows(raw, options):
        rows.append(row)
        speed, reference = (each.frames / each.seconds for each in (row, rows[0]))
        table.row(*row[:4], speed, f"{speed / reference:.3g}x", *row.results)
    if curves := {row.variant: row.curve for row in rows if row.curve is not None}:
        (steps, _), path = next(iter(curves.values())), run.figures / "learning_curves.png"
        values = {name: each for name, (_, each) in curves.items()}
        plot_learning_curves(values, steps, path, ylabel=comparison.ylabel)
    save(run.path / "results.json", {comparison.title: table})
    print(f"\nWritten to {run.path}: results.json, figures/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
