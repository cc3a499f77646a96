"""Options shared by all commands with a run directory."""

import argparse
import dataclasses
from typing import TypeVar

from metaevo.config import ConfigError, code, from_dict, merge, to_dict
from metaevo.config.command_line import Parser
from metaevo.config.plain import PlainDict
from metaevo.runs.latest import run_argument
from metaevo.runs.run import find_directory
from metaevo.runs.settings import HasRun

S = TypeVar("S", bound=HasRun)
COMMANDS = {"train": "train", "evolution": "evolve", "sweep": "sweep"}
"""The command that writes a run directory, by its job type."""


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
    return parser


def with_trackers(settings: S, args: argparse.Namespace) -> S:
    """Return the settings with the trackers of the command line."""
    asked = {"wandb": args.wandb, "mlflow": args.mlflow}
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        return settings
    run = from_dict(type(settings.run), {**to_dict(settings.run), **changes})
    return dataclasses.replace(settings, run=run)


def settings_to_resume(command: str, args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
    """Return the settings of the run that the command line continues.

    Raises:
        ConfigError: if it names no run or a run of another command, or not all code of the run.
    """
    run = find_directory(args.run_dir, "", resume=True)
    content = run.read_config()
    writer = COMMANDS.get(content["resolved"].get("job_type", ""), command)
    if writer != command:
        raise ConfigError(
            f"run directory {run.path} was written by metaevo {writer}; continue it with: "
            f"metaevo {writer} --resume --run-dir {run.path}"
        )
    settings = content["config"]
    code.admit(run.path, merge(settings, overrides), content["resolved"], overrides, args.code)
    return settings
