"""Command line of `metaevo compare`."""

import argparse
from pathlib import Path
from typing import get_args

from metaevo.comparison import page
from metaevo.comparison.analysis import compare_runs
from metaevo.comparison.curves import Score
from metaevo.comparison.seed_run import AXES
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.runs.run_directory import RunDirectory


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Compare the runs of a command line, write the page, and return the exit code."""
    options = vars(_parser(description).parse_args(argv))
    runs, folder = (options.pop(name) for name in ("runs", "output"))
    # Before the output directory is made, so that a wrong name leaves no empty one.
    result = compare_runs(runs, **options)
    output = RunDirectory.create(folder, "comparisons").path
    path = page.save(result, output / "index.html")
    print(f"{page.terminal(result)}\n\npage: {path}")
    return 0


def _parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the arguments of `compare_runs` and `--output`."""
    parser = Parser("compare", description)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN",
        help="a run directory, a folder of them, a glob, latest; wandb:ENTITY/PROJECT[/RUN]; "
        "wandb:DIRECTORY (offline); mlflow:URI#EXPERIMENT; the first one is the baseline",
    )  # fmt: skip
    parser.add_argument(
        "--metric", metavar="NAME",
        help="a name in the records, or evaluation[:VARIANT] for held-out scores; "
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
        "--full-length", action="store_true",
        help="score every run at its own end instead of the last common point",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="default: runs/comparisons/<time>"
    )
    return parser


def _keys(text: str) -> list[str]:
    keys = [key.strip() for key in text.split(",") if key.strip()]
    if not keys:
        raise argparse.ArgumentTypeError("names no setting")
    return keys
