"""Command line of `metaevo sweep`."""

from metaevo.commands.run_options import parse_run, run_parser
from metaevo.config import code, exit_on_config_error
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.tuning.run import plan, run_sweep


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse arguments without the program's name, sweep, and return the exit code."""
    parser = run_parser("sweep", description)
    settings, args = parse_run(parser, argv, sweep_class)
    code.use(args.code)
    objective = make_objective(settings)
    if args.dry_run:
        print(plan(objective).text())
        return 0
    return run_sweep(objective, settings, run_dir=args.run_dir, resume=args.resume)
