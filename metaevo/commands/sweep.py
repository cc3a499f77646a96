"""Command line of `metaevo sweep`."""

from metaevo.commands.run_options import parse_settings, run_parser
from metaevo.config import code


def main(argv: list[str]) -> int:
    """Parse a command line, sweep, and return the exit code."""
    settings, args = parse_settings(run_parser("sweep"), argv)
    from metaevo.studies.sweeps import make_objective
    from metaevo.tuning.run import plan, run_sweep

    code.use(args.code)
    objective = make_objective(settings)
    if args.dry_run:
        print(plan(objective).text())
        return 0
    return run_sweep(objective, settings, run_dir=args.run_dir, resume=args.resume)
