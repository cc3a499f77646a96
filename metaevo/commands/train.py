"""Command line of `metaevo train`."""

from metaevo.commands.run_options import run_parser, settings_to_resume, with_trackers
from metaevo.config import code, exit_on_config_error
from metaevo.config.command_line import parse_command_line
from metaevo.runs.quick import quickened
from metaevo.training.run import run_training
from metaevo.training.settings import training_class


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, train, return the exit code."""
    parser = run_parser("train", description)
    code.add_flag(parser)
    settings, args = parse_command_line(
        parser,
        argv,
        training_class,
        lambda args, overrides: settings_to_resume("train", args, overrides) if args.resume else {},
        quickened,
    )
    settings = with_trackers(settings, args)
    code.use(args.code)
    return run_training(settings, run_dir=args.run_dir, resume=args.resume)
