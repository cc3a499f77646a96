"""Runs in wandb, online or in offline directories, of metaevo and of other programs."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from metaevo.comparison.recorded import KINDS, RecordedRun
from metaevo.config import ConfigError, PlainDict, PlainMapping, flatten
from metaevo.runs.trackers import OF_AGENTS

WANDB = "wandb:"
_TIMEOUT = 120
"""Seconds for wandb's reader of one offline run."""


def read(text: str) -> list[RecordedRun]:
    """Return the runs of `wandb:ENTITY/PROJECT[/RUN]` or `wandb:DIRECTORY`.

    Raises:
        ConfigError: there are no runs, or they cannot be read.
    """
    where = text.removeprefix(WANDB)
    try:
        found = list(_offline(Path(where)) if Path(where).exists() else _online(where))
    except Exception as error:  # of the client, its reader or the network
        reason = str(error).strip().partition("\n")[0] or repr(error)
        missing = "" if Path(where).exists() else f"{where} is no directory, and as a project: "
        raise ConfigError(f"{text}: {missing}cannot be read: {reason}") from None
    if not found:
        raise ConfigError(f"{text}: there is no wandb run")
    return found


def recorded(
    name: str, identity: str, config: PlainMapping, rows: Sequence[PlainMapping], finished: bool
) -> RecordedRun:
    """Return a run; keys that begin with _ are of wandb, with a kind (`update/frames`) ours."""
    config = {key: value for key, value in config.items() if not key.startswith("_")}
    prefixes = {key.partition("/")[0] for row in rows for key in row if "/" in key}
    kind = next((kind for kind in KINDS if kind in prefixes), "")
    if not ("resolved" in config and kind):
        return RecordedRun(name, flatten(config), rows, "", finished, identity=identity)
    settings = {key: config[key] for key in config.keys() - {"resolved", "environment"}}
    records = [_record(row, kind) for row in rows if f"{kind}/index" in row]
    return RecordedRun(name, flatten(settings), records, kind, finished, identity=identity)


def _record(row: PlainMapping, kind: str) -> PlainDict:
    """Return a record as it is in metrics.jsonl; wandb has each agent's return as a metric."""
    own = {key.removeprefix(f"{kind}/"): row[key] for key in row if key.startswith(f"{kind}/")}
    record = {**own, kind: own["index"]}
    for name in OF_AGENTS:
        agents = [key for key in own if key.startswith(f"{name}.")]
        by_agent = {int(key.partition(".")[2]): record.pop(key) for key in agents}  # without null
        record[name] = [by_agent.get(agent) for agent in range(max(by_agent, default=-1) + 1)]
    return record


def _online(path: str) -> Iterator[RecordedRun]:
    import wandb  # takes seconds

    parts = path.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError("neither a directory nor wandb:ENTITY/PROJECT[/RUN]")
    api = wandb.Api(timeout=30)
    for run in [api.run(path)] if len(parts) == 3 else api.runs(path):
        name = f"{WANDB}{parts[0]}/{parts[1]}/{run.id}"
        rows = list(run.scan_history())
        yield recorded(name, run.id, run.config, rows, run.state == "finished")


def _offline(path: Path) -> Iterator[RecordedRun]:
    """Yield the run in a file, or the runs in all files below a directory."""
    for file in [path] if path.is_file() else sorted(path.rglob("run-*.wandb")):
        if not file.parent.is_symlink():  # `latest-run` is a link to another run
            yield _from_file(file)


def _from_file(path: Path) -> RecordedRun:
    found = entries(path)
    config: PlainDict = {}
    for entry in [*(each.get("config", {}) for each in found["run"]), *found["config"]]:
        config |= entry.get("update", {})
    rows = [each.get("item", {}) for each in found["history"]]
    finished = any(not each.get("exit_code", 0) for each in found["exit"])
    identity = path.stem.removeprefix("run-")
    return recorded(f"{WANDB}{path.parent}", identity, config, rows, finished)


def entries(path: Path) -> dict[str, list[PlainDict]]:
    """Return the entries of a file by type, read by wandb because the format is undocumented."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    found: dict[str, list[PlainDict]] = {"run": [], "config": [], "history": [], "exit": []}
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError):  # the last entry of a killed run is cut short
            entry = json.loads(line)
            found.setdefault(entry["type"], []).append(entry.get(entry["type"]))
    if not any(found.values()):
        raise ValueError(f"{path}: {done.stderr or 'it has no entry'}")
    return found
