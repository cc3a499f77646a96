"""Command line of `metaevo judge`: proposals on standard input, answers on standard output."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from metaevo.config import ConfigError, exit_on_config_error, files, to_dict
from metaevo.config.command_line import Parser, parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.discovery.archive import Judged
from metaevo.discovery.proposals import MAX_LINE, PROGRAM, Judge, raw_settings
from metaevo.reports.numbers import number
from metaevo.studies.settings import experiment_class

LINES = 128
"""Maximum number of proposals that are judged before they are answered."""


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, judge the proposals of standard input, return the exit code."""
    parser = Parser("judge", description)
    parser.add_argument("--slot", help="the slot that the proposals fill")
    parser.add_argument(
        "--tasks", type=Path, metavar="FILE", help="settings of an evolution, or a preset"
    )
    parser.add_argument("--state", type=Path, metavar="DIR", help="directory of the archive")
    parser.add_argument(
        "--batch", type=int, default=8, metavar="N", help="programs that are trained at once"
    )

    def defaults(args: Namespace, overrides: PlainDict) -> PlainDict:
        del overrides
        if args.tasks is None:
            raise ConfigError("--tasks: name a file with the settings of an evolution, or a preset")
        return raw_settings(args.slot, args.tasks)

    if "--config" in argv:
        raise ConfigError("--config: name the settings with --tasks")
    settings, args = parse_command_line(
        parser, argv, lambda raw: experiment_class(raw, PROGRAM), defaults
    )
    judge = Judge(None, to_dict(settings), state=args.state, batch=args.batch)
    language = settings.component
    print(
        f"an expression is the {language.gives} of {language.slot}; inputs: "
        f"{', '.join(language.names)}",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.isatty():
        print("reading proposals, one JSON object a line", file=sys.stderr)
    seen = invalid = 0
    for lines in batches(sys.stdin.fileno(), LINES):
        for answer in judge.submit(lines):
            _answer(answer)
            seen, invalid = seen + 1, invalid + (not answer.valid)
        best = judge.archive[0].score if judge.archive else None
        about = f"{seen} proposals, {invalid} not valid; {len(judge.archive)} in the archive"
        print(f"{about}; best score: {number(best)}", file=sys.stderr, flush=True)
    return 0


def batches(descriptor: int, most: int) -> Iterator[list[bytes]]:
    """Yield the lines that are there, at most `most` at once; wait only if there are none.

    Of a line that is too long only the beginning is kept, so memory is bounded. The last line may
    lack its end.
    """
    unfinished = b""
    while block := os.read(descriptor, MAX_LINE):
        *lines, unfinished = (unfinished + block).split(b"\n")
        unfinished = unfinished[: MAX_LINE + 1]
        for start in range(0, len(lines), most):
            yield lines[start : start + most]
    if unfinished:
        yield [unfinished]


def _answer(answer: Judged) -> None:
    """Write a line to standard output."""
    try:
        print(json.dumps(files.plain(answer.record()), allow_nan=False), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        raise files.unwritable("standard output", error) from None
