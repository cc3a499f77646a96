"""Command line of `metaevo compare`."""

import argparse
import sys
import time
from pathlib import Path

from metaevo.comparison.compare_runs import page
from metaevo.comparison.compare_runs.analysis import compare_runs
from metaevo.comparison.compare_runs.results import Options
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.comparison.compare_runs.words import terminal
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.runs.run_directory import RunDirectory

SCORES = ("final", "area", "best")


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, compare, write, return the exit code.

    Args:
        argv: arguments without the program's name.
        description: text for `--help`.
    """
    args = _parser(description).parse_args(argv)
    options = vars(_options(args))
    # Before the output directory is made, so that a wrong name leaves no empty one.
    result = compare_runs(args.runs, **options)
    output = RunDirectory.create(args.output, "comparisons").path
    try:
        while True:
            going_on = args.watch is not None and not all(each.complete for each in result.sources)
            path = page.save(result, output, reload_seconds=args.watch if going_on else None)
            clear = "\x1b[2J\x1b[H" if args.watch is not None and sys.stdout.isatty() else ""
            print(f"{clear}{terminal(result)}\n\npage: {path}", flush=True)
            if not going_on:
                return 0
            time.sleep(args.watch)
            result = compare_runs(args.runs, **options)
    except KeyboardInterrupt:
        return 0


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = Parser("compare", description)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN",
        help="a run directory, a folder of them, a glob, latest; wandb:ENTITY/PROJECT[/RUN]; "
        "wandb:DIRECTORY (offline); mlflow:URI#EXPERIMENT",
    )  # fmt: skip
    parser.add_argument(
        "--metric", metavar="NAME",
        help="a name in the records, or evaluation[:VARIANT] for scores of evaluation.json; "
        "default: mean return, fitness of the mean, or the best value of a sweep",
    )  # fmt: skip
    parser.add_argument(
        "--score", choices=SCORES, default="final",
        help="of a curve: the mean of its last tenth (final) or of the whole curve (area), or its "
        "highest point (best); default: final",
    )  # fmt: skip
    parser.add_argument(
        "--group-by", metavar="KEY[,KEY]",
        help="settings that form the groups (or `run`); default: all that differ",
    )  # fmt: skip
    parser.add_argument("--align", choices=tuple(AXES), help="the axis of the curves")
    parser.add_argument("--threshold", type=float, help="for the steps to reach it")
    parser.add_argument("--optimum", type=float, help="the score that the gap is measured from")
    parser.add_argument(
        "--full-length", action="store_true",
        help="score every run at its own end instead of the last common point",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="default: runs/comparisons/<time>"
    )
    parser.add_argument(
        "--watch", nargs="?", const=30.0, type=float, metavar="SECONDS",
        help="read the runs again at this interval (30 s), until Ctrl-C or all are finished",
    )  # fmt: skip
    return parser


def _options(args: argparse.Namespace) -> Options:
    if args.watch is not None and not args.watch > 0:
        raise ConfigError(f"--watch {args.watch:g}: must be greater than 0")
    keys = None
    if args.group_by is not None:
        keys = tuple(key.strip() for key in args.group_by.split(",") if key.strip())
        if not keys:
            raise ConfigError("--group-by names no setting")
    return Options(
        args.metric, args.score, keys, args.align, args.threshold, args.optimum, args.full_length
    )
