"""Sends finished or stopped run directories to tracking services."""

import argparse
import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from metaevo.config import ConfigError, exit_on_config_error, files
from metaevo.config.command_line import Parser
from metaevo.runs.latest import evolutions_in, run_path
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination, check_own, configured, destinations
from metaevo.runs.tracking.mirror import Mirror, lock_path, one_line


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Parse a command line, send the runs, return the exit code.

    Args:
        argv: without the program's name.
        description: for `--help`.

    Returns:
        0 if everything has arrived; 1 if a service failed; 2, or 74 if the disk is at fault, for a
        run directory that cannot be used.
    """
    args = _parser(description).parse_args(argv)
    named = destinations(args.wandb or "disabled", args.mlflow, args.project or "metaevo")
    work = [
        (run, destination)
        for run in map(RunDirectory.open, _paths(args.runs))
        for destination in _destinations(run, named, args.project, args.confirm_destination)
    ]
    return max([_sync(run, destination) for run, destination in work], default=0)


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
    """Return the directories that are named, each once; a glob stands for the runs it matches."""
    paths: dict[Path, None] = {}
    for text in texts:
        found = [Path(each) for each in sorted(glob.glob(text))] if glob.has_magic(text) else []
        runs = [path for path in found if os.path.lexists(path / "config.yaml")]
        if glob.has_magic(text) and not runs and not os.path.exists(text):
            raise ConfigError(f"{text}: matches no run directory")
        for path in runs or [run_path(text)]:
            paths |= dict.fromkeys([path, *evolutions_in(path)])
    return list(paths)


def _destinations(
    run: RunDirectory, named: list[Destination], project: str | None, confirmed: bool
) -> list[Destination]:
    """Return the destinations of the command line, or those in the settings of the run."""
    config = run.read_config()["config"]
    if not named and not confirmed:
        check_own(run.path, config.get("run", {}))
    found = named or configured(config)
    if not found:
        raise ConfigError(f"{run.path}: its settings name no tracker; add --wandb or --mlflow")
    own = config.get("run", {}).get("wandb_project", "metaevo")
    return [Destination(each.service, each.where, project or own) for each in found]


def _sync(run: RunDirectory, destination: Destination) -> int:
    where = f"{run.path} -> {destination.label}"
    try:
        with files.locked(lock_path(run.path, destination), wait=False):
            mirror = Mirror(run, destination, results=True)
            mirror.catch_up()
            mirror.finish()
    except BlockingIOError:
        print(f"error: {where}: another process sends this run at the moment", file=sys.stderr)
        return 1
    except files.NotAFileError as error:  # in the place of a lock
        print(f"error: {files.unwritable(error.filename, error)}", file=sys.stderr)
        return ConfigError.exit_code
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    # Any other exception is a failure of the service; the other runs are still sent.
    except Exception as error:
        print(f"error: {where}: {one_line(error)}", file=sys.stderr)
        return 1
    print(f"{where}: sent")
    return 0
