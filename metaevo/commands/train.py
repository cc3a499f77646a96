"""Command line of `metaevo train`."""

from typing import Any

from metaevo.commands.run_options import parse_settings, run_parser
from metaevo.config import code, exit_on_config_error
from metaevo.config.plain import PlainDict


@exit_on_config_error()
def main(argv: list[str]) -> int:
    """Parse a command line, train, return the exit code."""

    def training_class(raw: PlainDict) -> type[Any]:
        from metaevo.training import settings

        return settings.training_class(raw)

    settings, args = parse_settings(run_parser("train"), argv, training_class)
    from metaevo.training.run import plan, run_training

    code.use(args.code)
    if args.dry_run:
        print(plan(settings).text())
        return 0
    return run_training(settings, run_dir=args.run_dir, resume=args.resume)
