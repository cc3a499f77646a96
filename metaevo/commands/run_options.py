"""Options shared by all commands with a run directory."""

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TypeVar

from metaevo.config import ConfigError, consent, from_dict, show, to_dict
from metaevo.config.command_line import Parser
from metaevo.config.plain import PlainDict
from metaevo.runs.latest import run_argument
from metaevo.runs.run import find_directory
from metaevo.runs.settings import HasRun
from metaevo.runs.tracking.destination import check_confirmed

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
        help="mirror the run to Weights & Biases; offline if no mode is given",
    )
    parser.add_argument(
        "--mlflow",
        nargs="?",
        const="local",
        metavar="URI",
        help="mirror the run to MLflow; without a URI to the database ./mlruns.db",
    )
    parser.add_argument(
        "--confirm-destination",
        action="store_true",
        help="with --resume: use the servers that the settings of the run name",
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
        ConfigError: if it names no run or a run of another command, or if only the run's own
            settings name a server.
    """
    run = find_directory(args.run_dir, "", resume=True)
    content = run.read_config()
    writer = COMMANDS.get(content["resolved"].get("job_type", ""), command)
    if writer != command:
        raise ConfigError(
            f"run directory {run.path} was written by metaevo {writer}; continue it with: "
            f"metaevo {writer} --resume --run-dir {run.path}"
        )
    saved: PlainDict = content["config"]
    consent.note_user_names(overrides)
    if getattr(args, "trust_source", False):
        consent.trust_names()
    if args.confirm_destination:
        return saved
    own = saved.get("run", {})
    given = {name for name in ("wandb", "mlflow") if getattr(args, name) is not None}
    given.update(_section(overrides, "run"))
    check_confirmed(run.path, {name: own[name] for name in own.keys() - given})
    _check_storage(run.path, _section(saved, "sweep"), _section(overrides, "sweep"))
    return saved


def _section(settings: PlainDict, name: str) -> PlainDict:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _check_storage(path: Path, saved: PlainDict, given: PlainDict) -> None:
    """Raise if a database of trials is named only by a run directory."""
    storage = saved.get("storage")
    if storage is not None and "storage" not in given:
        shown = re.sub(r"(://[^:/@]+:)[^@]*@", r"\1***@", str(storage))
        raise ConfigError(
            f"{path}: its own settings, not this command line, keep its trials in "
            f"sweep.storage = {show(shown)}; confirm that with "
            "--confirm-destination, or name it: --sweep.storage URL"
        )
