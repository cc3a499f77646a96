"""Command line of `metaevo train`."""

from metaevo.commands.run_options import parse_settings, run_parser
from metaevo.config import code


def main(argv: list[str]) -> int:
    """Parse a command line, train, return the exit code."""
    settings, args = parse_settings(run_parser("train"), argv)
    from metaevo.training.run import plan, run_training

    code.use(args.code)
    if args.dry_run:
        print(plan(settings).text())
        return 0
    return run_training(settings, run_dir=args.run_dir, resume=args.resume)
