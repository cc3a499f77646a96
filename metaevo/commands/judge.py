"""Command line of `metaevo judge`: proposals on standard input, answers on standard output."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from metaevo.config import ConfigError, exit_on_config_error, files, to_dict
from metaevo.config.command_line import Parser, parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.discovery.proposals import PROGRAM, Judge, raw_settings
from metaevo.studies.settings import settings_class


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, judge the proposals of standard input, return the exit code."""
    parser = Parser("judge", description)
    parser.add_argument("--slot", help="the slot that the proposals fill")
    parser.add_argument(
        "--tasks", type=Path, metavar="FILE", help="settings of an evolution, or a preset"
    )
    parser.add_argument("--state", type=Path, metavar="DIR", help="directory of the archive")

    def defaults(args: Namespace, overrides: PlainDict) -> PlainDict:
        if args.tasks is None:
            raise ConfigError("--tasks: name a file with the settings of an evolution, or a preset")
        return raw_settings(args.slot, args.tasks)

    if "--config" in argv:
        raise ConfigError("--config: name the settings with --tasks")
    settings, args = parse_command_line(
        parser, argv, lambda raw: settings_class(raw, PROGRAM), defaults
    )
    language = settings.component
    with Judge(None, to_dict(settings), state=args.state) as judge:
        print(
            f"an expression is the {language.gives} of {language.slot}; inputs: "
            f"{', '.join(language.names)}",
            file=sys.stderr,
            flush=True,
        )
        for line in sys.stdin.buffer:
            (answer,) = judge.submit([line.rstrip(b"\n")])
            print(json.dumps(files.plain(answer.record()), allow_nan=False), flush=True)
        print(f"{len(judge.archive)} programs in the archive", file=sys.stderr)
    return 0
