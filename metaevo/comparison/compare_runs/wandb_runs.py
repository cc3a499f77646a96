"""Reading wandb: runs on its servers through its API, and offline runs from their files."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from metaevo.comparison.compare_runs.seed_run import Source
from metaevo.comparison.compare_runs.tracked_runs import seed_run, without_means
from metaevo.config import ConfigError

PREFIX = "wandb:"
_SECONDS = 120
_STATES = {"finished": "finished", "running": "still going on"}


def read(text: str, make_api: Callable[[], Any] | None = None) -> list[Source]:
    """The runs of `wandb:DIRECTORY` (offline) or `wandb:ENTITY/PROJECT[/RUN]`.

    Args:
        text: the argument of the user.
        make_api: returns what `wandb.Api()` does.

    Raises:
        ConfigError: there are none, or wandb cannot be reached.
    """
    where = text.removeprefix(PREFIX)
    if Path(where).exists():
        return _offline(Path(where))
    parts = where.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"{text}: neither a directory nor wandb:ENTITY/PROJECT[/RUN]")
    return _online(text, parts, make_api or _api)


def _api() -> Any:
    import wandb

    return wandb.Api(timeout=30)


def _online(text: str, parts: list[str], make_api: Callable[[], Any]) -> list[Source]:
    try:
        api = make_api()
        path = "/".join(parts)
        runs = [api.run(path)] if len(parts) == 3 else list(api.runs(path))
        return without_means([_from_api(parts, run) for run in runs]) or _none(text)
    except ConfigError:
        raise
    except Exception as error:  # wandb, requests and the operating system each have their own
        raise ConfigError(f"{text}: wandb cannot be read: {error}") from None


def _none(text: str) -> list[Source]:
    raise ConfigError(f"{text}: there is no wandb run")


def _from_api(parts: list[str], run: Any) -> Source:
    config = {key: value for key, value in run.config.items() if not key.startswith("_")}
    name = f"{PREFIX}{parts[0]}/{parts[1]}/{run.id}"
    seed = seed_run(name, config, list(run.scan_history()), run.id)
    return Source(name, "wandb", [seed] if seed else [], _STATES.get(run.state, run.state))


def _offline(path: Path) -> list[Source]:
    """The run of an offline directory, or all runs below it."""
    files = [path] if path.suffix == ".wandb" else sorted(path.rglob("run-*.wandb"))
    # `latest-run` is a link to another run.
    files = [file for file in files if not file.parent.is_symlink() and file.is_file()]
    if not files:
        raise ConfigError(f"{PREFIX}{path}: holds no offline wandb run (no file run-*.wandb)")
    return without_means([_from_file(file) for file in files])


def _from_file(path: Path) -> Source:
    config: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    ended: int | None = None
    for record in _records(path):
        if record["type"] in ("run", "config"):
            config |= (
                record.get("run", {}).get("config", record.get("config", {})).get("update", {})
            )
        elif record["type"] == "history":
            rows.append(record["history"].get("item", {}))
        elif record["type"] == "exit":
            ended = record["exit"].get("exit_code", 0)
    config = {key: value for key, value in config.items() if not key.startswith("_")}
    name, identity = f"{PREFIX}{path.parent}", path.stem.removeprefix("run-")
    seed = seed_run(name, config, rows, identity)
    # The state of an offline run is recorded at its end: without it, it may still run.
    state = {None: "still going on or killed", 0: "finished"}.get(ended, "failed")
    return Source(name, "wandb offline", [seed] if seed else [], state)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a .wandb file, by wandb's own reader: the format is not documented."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{path}: wandb cannot read it: {error}") from None
    found = False
    for line in done.stdout.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last record of a killed run is cut short
        if isinstance(record, dict) and "type" in record:
            found = True
            yield record
    if not found:
        raise ConfigError(f"{path}: wandb cannot read it: {done.stderr or 'it holds no record'}")
