"""Command line of `metaevo sweep`."""

from typing import Any

from metaevo.commands.run_options import parse_run, run_parser
from metaevo.config import code, exit_on_config_error
from metaevo.reports.page import Table
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.training.sweeps import Trainings
from metaevo.tuning.objective import Objective
from metaevo.tuning.run import run_sweep
from metaevo.tuning.samplers import num_trials


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse arguments without the program's name, sweep, and return the exit code."""
    parser = run_parser("sweep", description)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what the sweep would do: trials, compilations, frames, memory",
    )
    settings, args = parse_run(parser, argv, sweep_class, lambda args, overrides: {})
    code.use(args.code)
    objective = make_objective(settings)
    if args.dry_run:
        print(_plan(objective).text())
        return 0
    return run_sweep(objective, settings, run_dir=args.run_dir, resume=args.resume)


def _plan(objective: Objective[Any]) -> Table:
    """Return the table that `--dry-run` prints, for the settings before the sweep."""
    config, space, program = objective.config, objective.space, objective.start()
    trials = num_trials(config, space)
    rows: list[list[object]] = [
        ["trials", f"{trials} x {config.seeds} seeds, {config.sampler}"],
        ["scheduler", config.scheduler],
        ["compilations, at most", int(min(trials, space.num_static()))],
        ["frames of the search, at most", trials * config.seeds * program.frames],
        ["frames of the confirmation", 2 * config.confirm_seeds * program.frames],
    ]
    if isinstance(program, Trainings):
        population = program.population
        most = f"at most {population.chunk_size} on each of {population.num_devices}"
        rows.append(["agents at once", most])
        rows.append(["memory of a chunk", f"{population.memory_bytes / 2**20:,.1f} MiB"])
    return Table("Plan", ["", ""], rows, note=f"Searched: {', '.join(space.entries)}")
