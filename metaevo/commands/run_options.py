"""Options shared by all commands with a run directory."""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from metaevo.config import code, from_dict, merge, to_dict
from metaevo.config.command_line import Defaults, Parser, parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.runs.quick import quickened
from metaevo.runs.run_directory import RunDirectory, run_argument
from metaevo.runs.settings import HasRun

S = TypeVar("S", bound=HasRun)


def run_parser(command: str, description: str | None) -> Parser:
    """Return a parser with these options."""
    parser = Parser(command, description)
    parser.add_argument(
        "--run-dir",
        type=run_argument,
        metavar="DIR",
        help="default: runs/<experiment>/<timestamp>; latest is the newest run",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --run-dir from its checkpoint"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything and print what would be computed; nothing is written",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: a whole run and its report in seconds; the numbers mean nothing",
    )
    parser.add_argument(
        "--wandb",
        nargs="?",
        const="offline",
        choices=("disabled", "offline", "online"),
        help="log the run to Weights & Biases; offline if no mode is given",
    )
    parser.add_argument(
        "--mlflow",
        nargs="?",
        const="local",
        metavar="URI",
        help="log the run to MLflow; without a URI to the database ./mlruns.db",
    )
    code.add_flag(parser)
    return parser


def parse_run(
    parser: Parser,
    argv: Sequence[str],
    make_class: Callable[[PlainDict], type[S]],
    new: Defaults = lambda args, overrides: {},
) -> tuple[S, argparse.Namespace]:
    """Parse a command line into the settings of a run, and its flags.

    Args:
        parser: made by `run_parser`.
        argv: arguments without the program's name.
        make_class: chooses the dataclass from the raw settings.
        new: settings of a new run without `--config`, from the flags and the other settings.
    """

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        known = _settings_to_resume if args.resume else new
        return known(args, overrides)

    settings, args = parse_command_line(parser, argv, make_class, defaults, quickened)
    trackers = {"wandb": args.wandb, "mlflow": args.mlflow}
    changes = {name: value for name, value in trackers.items() if value is not None}
    run = from_dict(type(settings.run), {**to_dict(settings.run), **changes})
    return dataclasses.replace(settings, run=run), args


def _settings_to_resume(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
    """Return the settings of the run that the command line continues.

    Raises:
        ConfigError: if it names no run, or not all code of the run.
    """
    run = RunDirectory.open(args.run_dir)
    content = run.read_config()
    settings = content["config"]
    code.admit(run.path, merge(settings, overrides), content["resolved"], overrides, args.code)
    return settings
