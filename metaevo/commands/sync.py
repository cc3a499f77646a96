"""Command line of `metaevo sync`: send finished or stopped runs to tracking services."""

import argparse
import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.runs.latest import evolutions_in, run_path
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination, check_confirmed, destinations
from metaevo.runs.tracking.mirror import send


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Send the runs that a command line names, and return the exit code.

    It is 0 if everything has arrived; 1 if a service failed; 2, or 74 if the disk is at fault, for
    a run directory that cannot be used.
    """
    parser = Parser("sync", description)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, globs, or latest")
    parser.add_argument(
        "--wandb",
        nargs="?",
        const="online",
        choices=("offline", "online"),
        help="send to Weights & Biases; online if no mode is given",
    )
    parser.add_argument(
        "--mlflow",
        nargs="?",
        const="local",
        metavar="URI",
        help="send to MLflow; without a URI to the database ./mlruns.db",
    )
    parser.add_argument(
        "--project",
        metavar="NAME",
        help="wandb's project, MLflow's experiment; by default the run's",
    )
    parser.add_argument(
        "--confirm-destination",
        action="store_true",
        help="send to the server in the settings of a run; refused otherwise",
    )
    args = parser.parse_args(argv)
    work = [
        (run, destination)
        for run in map(RunDirectory.open, _paths(args.runs))
        for destination in _destinations(run, args)
    ]
    return max([_sync(run, destination) for run, destination in work], default=0)


def _paths(texts: Sequence[str]) -> list[Path]:
    """Return the named directories without duplicates; globs are expanded to matching runs."""
    paths: dict[Path, None] = {}
    for text in texts:
        runs = [run_path(text)]
        if glob.has_magic(text) and not runs[0].exists():
            found = map(Path, sorted(glob.glob(text)))
            runs = [path for path in found if os.path.lexists(path / "config.yaml")]
            if not runs:
                raise ConfigError(f"{text}: matches no run directory")
        for path in runs:
            paths |= dict.fromkeys([path, *evolutions_in(path)])
    return list(paths)


def _destinations(run: RunDirectory, args: argparse.Namespace) -> list[Destination]:
    """Return the destinations of the command line, or those in the settings of the run."""
    settings = run.read_config()["config"].get("run", {})
    found = destinations({"wandb": args.wandb, "mlflow": args.mlflow})
    if not found:
        if not args.confirm_destination:
            check_confirmed(run.path, settings)
        found = destinations(settings)
    if not found:
        raise ConfigError(f"{run.path}: its settings name no tracker; add --wandb or --mlflow")
    project = args.project or settings.get("wandb_project") or "metaevo"
    return [replace(each, project=project) for each in found]


def _sync(run: RunDirectory, destination: Destination) -> int:
    where = f"{run.path} -> {destination.label}"
    try:
        send(run, destination)
    except Exception as error:  # the other runs are still sent
        reason = " ".join(str(error).split()) or type(error).__name__
        print(f"error: {where}: {reason[:300]}", file=sys.stderr)
        return error.exit_code if isinstance(error, ConfigError) else 1
    print(f"{where}: sent")
    return 0
