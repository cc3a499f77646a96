"""Sends what trackers have missed, from run directories alone."""

import argparse
import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.runs import files
from metaevo.runs.files import locked
from metaevo.runs.latest import evolutions_in, run_path
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination, check_own, configured, destinations
from metaevo.runs.tracking.mirror import Mirror, lock_path, make_service, reason
from metaevo.runs.tracking.service import PermanentError, Service


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Parse a command line, send, return the exit code.

    Args:
        argv: without the program's name.
        description: for `--help`.

    Returns:
        0 if everything has arrived; 1 if a service failed; 2, or 74 if the disk is at fault, if
        something is wrong with a run directory.
    """
    args = _parser(description).parse_args(argv)
    asked = destinations(args.wandb or "disabled", args.mlflow, args.project or "metaevo")
    work = [
        (run, destination)
        for run in map(RunDirectory.open, _paths(args.runs))
        for destination in _destinations(run, asked, args.project, args.confirm_destination)
    ]
    services: dict[tuple[str, str], Service | PermanentError] = {}
    return max([_sync(run, destination, services) for run, destination in work], default=0)


def _parser(description: str | None) -> argparse.ArgumentParser:
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
        help="send to the server that the settings of a run name; refused otherwise",
    )
    return parser


def _paths(texts: Sequence[str]) -> list[Path]:
    """Return the directories that are meant; of those that a glob finds, only runs."""
    paths: dict[Path, None] = {}  # in the order given, each once
    for text in texts:
        found = [Path(each) for each in sorted(glob.glob(text))] if glob.has_magic(text) else []
        runs = [path for path in found if os.path.lexists(path / "config.yaml")]
        if glob.has_magic(text) and not runs and not os.path.exists(text):
            raise ConfigError(f"{text}: matches no run directory")
        for path in runs or [run_path(text)]:
            paths |= dict.fromkeys([path, *evolutions_in(path)])
    return list(paths)


def _destinations(
    run: RunDirectory, asked: list[Destination], project: str | None, confirmed: bool
) -> list[Destination]:
    """Return where a run is to go: to what the command line names, else where it went before."""
    config = run.read_config()["config"]
    if not asked and not confirmed:
        check_own(run.path, config.get("run", {}))
    own = config.get("run", {}).get("wandb_project", "metaevo")
    found = asked or configured(config)
    if not found:
        raise ConfigError(
            f"{run.path}: its settings name no tracker; say where it is to go: --wandb, --mlflow"
        )
    return [Destination(each.service, each.where, project or own) for each in found]


def _sync(
    run: RunDirectory,
    destination: Destination,
    services: dict[tuple[str, str], Service | PermanentError],
) -> int:
    where = f"{run.path} -> {destination.label}"
    try:
        with locked(lock_path(run.path, destination), wait=False):
            service = _service(destination, services)
            mirror = Mirror(run, destination, service, results=True)
            if mirror.is_up_to_date:
                print(f"{where}: nothing new")
                return 0
            what = mirror.lacks or "how it ended"
            mirror.catch_up()
            mirror.finish()
    except BlockingIOError:
        print(f"error: {where}: another process mirrors this run just now", file=sys.stderr)
        return 1
    except files.NotAFileError as error:  # in the place of a lock
        print(f"error: {files.unwritable(error.filename, error)}", file=sys.stderr)
        return ConfigError.exit_code
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    # Whatever a service raises is its failure: the other runs and services are still served.
    except Exception as error:
        print(f"error: {where}: {reason(error)}", file=sys.stderr)
        return 1
    print(f"{where}: sent {what}")
    return 0


def _service(
    destination: Destination, services: dict[tuple[str, str], Service | PermanentError]
) -> Service:
    """Return a service, made once for all runs; if it cannot be made, that is tried once too."""
    key = (destination.service, destination.where)
    if key not in services:
        try:
            services[key] = make_service(destination)
        except PermanentError as error:
            services[key] = error
    service = services[key]
    if isinstance(service, PermanentError):
        raise service
    return service
