"""Run a published comparison side by side on this machine.

python experiments/reproduce.py                             # list the comparisons
python experiments/reproduce.py grid-world
python experiments/reproduce.py ppo-cartpole --agents 1 8 64 256 2048
python experiments/reproduce.py ppo-cartpole --pytorch_seeds 0 --frames 200000
python experiments/reproduce.py cartpole-dqn --quick        # shows that it works
python experiments/reproduce.py doors-dqn --help            # its settings
python experiments/reproduce.py mfos-ipd --run-dir runs/ipd # an evolution: flags of metaevo evolve

Tables and figures are printed and written to runs/reproduce/NAME/<time> (or --run-dir DIR).
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

import dataclasses
from collections.abc import Sequence
from typing import Any

from experiments.reproductions import cartpole_dqn, doors_dqn, grid_world, ppo_curves
from experiments.reproductions.comparison import Comparison, write
from metaevo.commands import evolve
from metaevo.config import ConfigError, exit_on_config_error, presets, to_dict
from metaevo.config.command_line import Parser, parse_command_line
from metaevo.config.hints import of_value
from metaevo.runs.run_directory import RunDirectory

COMPARISONS: dict[str, Comparison] = {
    "grid-world": grid_world.COMPARISON,
    "cartpole-dqn": cartpole_dqn.COMPARISON,
    "doors-dqn": doors_dqn.COMPARISON,
    "ppo-cartpole": ppo_curves.CARTPOLE,
    "ppo-breakout": ppo_curves.BREAKOUT,
}
SHAPING = {f"mfos-{game}": f"shaping/{game}" for game in ("ipd", "chicken", "pennies")}
"""Presets of M-FOS (Lu et al. 2022): evolutions that end with a round robin on fresh starts."""


def _with_lists(cls: type, raw: dict[str, Any]) -> type:
    """Make `--agents 8` in the raw settings a list of one; return the class."""
    for field in dataclasses.fields(cls):
        is_list = isinstance(field.default, tuple)
        if is_list and isinstance(raw.get(field.name), int | float | str):
            raw[field.name] = [raw[field.name]]
    return cls


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Run the comparison that a command line names."""
    known = {name: each.title for name, each in COMPARISONS.items()} | {
        name: f"opponent shaping: metaevo evolve --config configs/{preset}.yaml, five evolutions"
        for name, preset in SHAPING.items()
    }
    listing = "\n".join(f"  {name:22}{title}" for name, title in known.items())
    if not argv or argv[0] in ("-h", "--help"):
        print(f"{__doc__}\ncomparisons:\n{listing}")
        return 0
    name, *rest = argv
    if name not in known:
        hint = of_value(name, known)
        raise ConfigError(f"unknown comparison {name!r}{hint}; known: {', '.join(known)}")
    if name in SHAPING:
        several = "--evolution-seeds", "5", "--evaluation.seeds", "512"
        return evolve.main(["--config", str(presets.find(SHAPING[name])), *several, *rest])
    comparison = COMPARISONS[name]
    description = f"{comparison.title}. Published: {comparison.published}"
    parser = Parser(f"reproduce {name}", description)
    parser.add_argument("--quick", action="store_true", help="small sizes, within a minute or so")
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help=f"default: runs/reproduce/{name}/<timestamp>"
    )
    settings: Any
    settings, args = parse_command_line(
        parser,
        rest,
        lambda raw: _with_lists(comparison.settings, raw),
        lambda args, overrides: comparison.quick if args.quick else {},
    )
    try:
        comparison.check(settings)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    run = RunDirectory.create(args.run_dir, f"reproduce/{name}")
    run.write_config(to_dict(settings), {"comparison": name})
    print(description, flush=True)
    write(run, comparison, *comparison.run(settings, run.figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
