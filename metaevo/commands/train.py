"""Command line of `metaevo train`."""

from metaevo.commands.run_options import parse_run, run_parser
from metaevo.config import code, exit_on_config_error
from metaevo.training.run import plan, run_training
from metaevo.training.settings import training_class


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, train, return the exit code."""
    parser = run_parser("train", description)
    settings, args = parse_run(parser, argv, training_class)
    code.use(args.code)
    if args.dry_run:
        print(plan(settings).text())
        return 0
    return run_training(settings, run_dir=args.run_dir, resume=args.resume)
