"""Command line of `metaevo compare`."""

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from metaevo.comparison.compare_runs import page
from metaevo.comparison.compare_runs.analysis import compare_runs
from metaevo.comparison.compare_runs.curves import Score
from metaevo.comparison.compare_runs.seed_run import AXES
from metaevo.comparison.compare_runs.words import terminal
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.runs.run_directory import RunDirectory


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Compare the runs of a command line, write the page, and return the exit code."""
    options = vars(_parser(description).parse_args(argv))
    runs, folder, watch = (options.pop(name) for name in ("runs", "output", "watch"))
    # Before the output directory is made, so that a wrong name leaves no empty one.
    result = compare_runs(runs, **options)
    output = RunDirectory.create(folder, "comparisons").path
    try:
        while True:
            unfinished = watch is not None and not all(each.complete for each in result.sources)
            path = page.save(result, output, reload_seconds=watch if unfinished else None)
            clear = "\x1b[2J\x1b[H" if watch is not None and sys.stdout.isatty() else ""
            print(f"{clear}{terminal(result)}\n\npage: {path}", flush=True)
            if not unfinished:
                return 0
            time.sleep(watch)
            result = compare_runs(runs, **options)
    except KeyboardInterrupt:
        return 0


def _parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the arguments of `compare_runs`, `--output` and `--watch`."""
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
        "--score", choices=get_args(Score), default="final",
        help="how a curve is reduced to one number: the mean of its last tenth (final) or of the "
        "whole curve (area), or its best point (best); default: final",
    )  # fmt: skip
    parser.add_argument(
        "--group-by", metavar="KEY[,KEY]", type=_keys,
        help="settings that form the groups (or `run`); default: all that differ",
    )  # fmt: skip
    parser.add_argument("--align", choices=tuple(AXES), help="the axis of the curves")
    parser.add_argument(
        "--threshold", type=float,
        help="score for the steps to threshold; default: 90%% of the way to the best point",
    )  # fmt: skip
    parser.add_argument("--optimum", type=float, help="best possible score, for the gap")
    parser.add_argument(
        "--full-length", action="store_true",
        help="score every run at its own end instead of the last common point",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="default: runs/comparisons/<time>"
    )
    parser.add_argument(
        "--watch", nargs="?", const=30.0, type=_interval, metavar="SECONDS",
        help="read the runs again at this interval (30 s) until all are finished, or Ctrl-C",
    )  # fmt: skip
    return parser


def _keys(text: str) -> list[str]:
    keys = [key.strip() for key in text.split(",") if key.strip()]
    if not keys:
        raise argparse.ArgumentTypeError("names no setting")
    return keys


def _interval(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return seconds
