"""Command line of `metaevo judge`: proposals on standard input, answers on standard output."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from metaevo.commands.run_options import computing, parse_settings, start_jax
from metaevo.config import ConfigError, PlainDict, code, files, to_dict


def main(argv: list[str]) -> int:
    """Parse a command line, judge the proposals of standard input, return the exit code."""
    parser = computing("judge")
    text = "the slot: value_loss, policy_loss, make_optimizer, schedule or targets"
    parser.add_argument("--slot", help=text)
    text = "settings of an evolution, or a preset"
    parser.add_argument("--tasks", type=Path, metavar="FILE", help=text)
    text = "keep an archive there, and continue it"
    parser.add_argument("--state", type=Path, metavar="DIR", help=text)

    def defaults(args: Namespace, overrides: PlainDict) -> PlainDict:
        if args.config is not None:
            raise ConfigError("--config: name the settings with --tasks")
        if args.tasks is None:
            raise ConfigError("--tasks: name a file with the settings of an evolution, or a preset")
        start_jax()
        from metaevo.discovery.proposals import raw_settings

        return raw_settings(args.slot, args.tasks)

    settings, args = parse_settings(parser, argv, defaults)
    from metaevo.discovery.proposals import Judge
    from metaevo.reports.page import Table
    from metaevo.studies.changed import planned

    code.use(args.code)
    state = None if args.dry_run else args.state
    with Judge(None, to_dict(settings), state=state) as judge:
        if args.dry_run:
            print(Table("Plan", ["", ""], planned(judge.examples())).text())
            return 0
        language = judge.language
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
