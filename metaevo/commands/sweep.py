"""Command line of `metaevo sweep`."""

from metaevo.commands.run_options import parse_run, run_parser
from metaevo.config import code, exit_on_config_error
from metaevo.reports.page import Table
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.tasks.population import Population
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import Plan
from metaevo.tuning.run import run_sweep
from metaevo.tuning.space import Space


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
        plan = objective.plan()
        print(_table(plan, settings, objective.space).text())
        for reason in plan.invalid:
            print(f"warning: a static combination cannot be trained: {reason}")
        return 0
    return run_sweep(objective, settings, run_dir=args.run_dir, resume=args.resume)


def _table(plan: Plan, settings: SearchSettings, space: Space) -> Table:
    """Return the table that `--dry-run` prints."""
    config = settings.sweep
    rows: list[list[object]] = [
        ["trials", f"{plan.trials} x {config.seeds} seeds, {config.sampler}"],
        ["scheduler", config.scheduler],
        ["static groups", plan.groups if plan.groups is not None else "unbounded"],
        ["compilations", plan.compilations()],
        ["frames of the search", plan.search_frames],
    ]
    if plan.search_frames < plan.full_frames:
        share = plan.search_frames / plan.full_frames
        rows.append(["share of the frames without a scheduler", f"{share:.0%}"])
    rows.append(["frames of the confirmation", plan.confirm_frames])
    if isinstance(program := plan.program, Population):
        most = f"at most {program.chunk_size} on each of {program.num_devices}"
        rows.append(["agents at once", most])
        rows.append(["memory of a chunk", f"{program.memory_bytes / 2**20:,.1f} MiB"])
    return Table("Plan", ["", ""], rows, note=f"Searched: {', '.join(space.distributions)}")
