"""What all commands with a run directory share: their flags, how a run is opened, how it stops."""

import argparse
import contextlib
import dataclasses
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax

from metaevo.config import ConfigError, changed_keys, consent, from_dict, show, to_dict
from metaevo.config.command_line import Parser
from metaevo.config.files import write_text_atomic
from metaevo.config.sections import LATER
from metaevo.runs.latest import run_argument
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import HasRun
from metaevo.runs.tracking import RunTracker
from metaevo.runs.tracking.destination import check_confirmed, destinations

S = TypeVar("S", bound=HasRun)


def run_parser(command: str, description: str | None) -> Parser:
    """Return a parser with the flags that all commands with a run directory share."""
    parser = Parser(command, description)
    parser.add_argument(
        "--run-dir",
        type=run_argument,
        metavar="DIR",
        help="default: runs/<experiment>/<timestamp>; latest is the run that began last",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --run-dir from its checkpoint"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: a whole run and its report in seconds, whose numbers mean nothing",
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
        help="with --resume or --worker: use the servers that the settings of the run name",
    )
    return parser


def with_trackers(settings: S, args: argparse.Namespace) -> S:
    """Return the settings with the trackers that the command line asks for, if it does.

    Raises:
        ConfigError: if `--mlflow` is no tracking URI.
    """
    asked = {"wandb": args.wandb, "mlflow": args.mlflow}
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        return settings
    run = from_dict(type(settings.run), {**to_dict(settings.run), **changes})
    return dataclasses.replace(settings, run=run)


def for_environment_of(overrides: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return default settings without their `task.env_params` if another environment is asked for.

    Args:
        overrides: settings of the command line, of which `task.env` is read.
        settings: the defaults.
    """
    task = overrides.get("task")
    if isinstance(task, dict) and "env" in task:
        return {**settings, "task": {**settings.get("task", {}), "env_params": {}}}
    return settings


def settings_to_resume(
    args: argparse.Namespace, overrides: dict[str, Any], *, is_mirrored: bool = True
) -> dict[str, Any]:
    """Return the settings of the run that the command line continues.

    Args:
        args: the parsed flags.
        overrides: settings of the command line.
        is_mirrored: whether this process sends the run to trackers.

    Raises:
        ConfigError: if it names no run, or one whose own settings alone send it to a server.
    """
    run = open_run(args.run_dir, "", resume=True)
    saved: dict[str, Any] = run.read_config()["config"]
    if getattr(args, "trust_source", False):
        consent.trust_names()
    of_user, own = overrides.get("run"), saved.get("run")
    if is_mirrored and isinstance(own, dict) and not args.confirm_destination:
        given = {name for name in ("wandb", "mlflow") if getattr(args, name) is not None}
        given |= {"wandb", "mlflow"} & set(of_user if isinstance(of_user, dict) else ())
        check_confirmed(run.path, {name: own[name] for name in own.keys() - given})
    if not args.confirm_destination:
        _check_own_storage(run.path, saved.get("sweep"), overrides.get("sweep"))
    return saved


def _check_own_storage(path: Path, saved: Any, of_user: Any) -> None:
    """Refuse a database of trials that only a run directory names."""
    storage = saved.get("storage") if isinstance(saved, dict) else None
    if storage is not None and "storage" not in (of_user if isinstance(of_user, dict) else {}):
        shown = re.sub(r"(://[^:/@]+:)[^@]*@", r"\1***@", str(storage))
        raise ConfigError(
            f"{path}: its own settings, not this command line, keep its trials in "
            f"sweep.storage = {show(shown)}; confirm that with "
            "--confirm-destination, or name it: --sweep.storage URL"
        )


def open_run(run_dir: Path | None, experiment: str, *, resume: bool) -> RunDirectory:
    """Return the directory of a new run or, to resume, that of an existing one.

    Raises:
        ConfigError: if it cannot be used.
    """
    if not resume:
        return RunDirectory.create(run_dir, experiment)
    if run_dir is None:
        raise ConfigError("--resume needs --run-dir: the directory of the run to continue")
    return RunDirectory.open(run_dir)


def resume_flags(run: RunDirectory, settings: HasRun) -> str:
    """Return the flags that continue a run under its settings; in Python, the arguments."""
    if getattr(settings, "is_python", False):
        return f"run_dir={str(run.path)!r}, resume=True"
    asks = any(each.needs_confirmation for each in destinations(to_dict(settings.run)))
    asks = asks or getattr(getattr(settings, "sweep", None), "storage", None) is not None
    return f"--resume --run-dir {run.path}{' --confirm-destination' if asks else ''}"


def way_out(run: RunDirectory, settings: HasRun) -> str:
    """Return how to continue a run once its disk works again."""
    return f"what is saved is whole; continue with: {resume_flags(run, settings)}"


def check_same(run: RunDirectory, saved: dict[str, Any], settings: S, harmless: Sequence[str]) -> S:
    """Refuse to resume under settings that would have given another run.

    Args:
        run: the directory of the run.
        saved: its settings; one that did not exist when it began has its default.
        settings: those of the command line.
        harmless: beginnings of the keys that may change.

    Returns:
        the settings of the run.

    Raises:
        ConfigError: naming every key that differs and matters, or a section that is missing.
    """
    before = saved_settings(run, type(settings), saved)
    changes = [
        f"{key}: {old!r} -> {new!r}"
        for key, (old, new) in changed_keys(to_dict(before), to_dict(settings)).items()
        if not key.startswith(tuple(harmless))
    ]
    if changes:
        raise ConfigError(
            f"cannot resume with other settings ({', '.join(changes)}); start a new run"
        )
    return before


def saved_settings(run: RunDirectory, cls: type[S], saved: dict[str, Any]) -> S:
    """Return the settings of a run as its script has them.

    Raises:
        ConfigError: if one of them is wrong, or a whole section, or what stands beside them, is
            missing: the defaults would be another run.
    """
    for field in dataclasses.fields(cls):
        if field.name not in saved and not field.metadata.get(LATER):
            raise ConfigError(f"{run.config_path}: has no 'config.{field.name}'")
    return from_dict(cls, saved)


def start_tracker(settings: HasRun, run: RunDirectory, job_type: str) -> RunTracker:
    """Mirror a run, whose config.yaml is written, as its settings ask for it."""
    return RunTracker(
        run, destinations(to_dict(settings.run)), job_type=job_type, wait=settings.run.track_wait
    )


@contextlib.contextmanager
def end_on_device_error(run: RunDirectory, settings: HasRun) -> Iterator[None]:
    """End the process with code 1 and a line where something compiled fails as it runs.

    An environment that calls back into Python may raise there, and memory may run out. The run's
    checkpoints stay as they are; `error.txt` in its directory has the whole traceback.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        path = run.path / "error.txt"
        write_text_atomic(path, traceback.format_exc())
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        reason = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
        print(
            f"error: the run has failed on the device: {reason} (all of it: {path}); what is saved "
            f"can be continued: {resume_flags(run, settings)}",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
