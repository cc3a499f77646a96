"""Runs in wandb and MLflow, of metaevo and of other programs."""

import ast
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from metaevo.comparison.seed_run import MEAN, SeedRun, seed_name, seed_run
from metaevo.config import ConfigError, flatten
from metaevo.config.plain import PlainDict, PlainMapping

WANDB, MLFLOW = "wandb:", "mlflow:"
_SQLITE = "sqlite:///"
_PARENT = "mlflow.parentRunId"
_TIMEOUT = 120
"""Seconds for wandb's reader of one offline run."""
_MOST_RUNS = 50_000
"""Runs that MLflow returns at once."""
_KINDS = "update", "generation", "trial", "evaluation"
"""Prefixes of the metrics that our own runs log."""
_RUN_ID, _AGENT = "resolved.run_id", "agent"
"""Keys that our own runs log: the id of the run, and the index of the agent."""
_OURS = "resolved.", "environment."
"""Prefixes of keys that our own runs log in addition to their settings."""
_Found = tuple[SeedRun, bool]
"""A run, and whether it is finished."""


def read(text: str, notes: list[str]) -> list[SeedRun]:
    """Return a tracker's runs, which are one seed each, and append to the notes.

    Raises:
        ConfigError: there are no runs, or they cannot be read.
    """
    tracker = text.partition(":")[0]
    try:
        found = list(_read_wandb(text) if tracker == "wandb" else _read_mlflow(text))
    except ConfigError:
        raise
    except ImportError:
        reason = "MLflow is not installed: pip install 'metaevo[mlflow]'"
        raise ConfigError(f"{text}: {reason}") from None
    except Exception as error:  # of the client, its database or the network
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{text}: {tracker} cannot be read: {reason}") from None
    if not found:
        raise ConfigError(f"{text}: there is no {tracker} run")
    notes += [f"{seed.run}: is not finished" for seed, complete in found if not complete]
    return [seed for seed, _ in found]


def tracked(
    name: str, identity: str, config: PlainMapping, rows: Sequence[PlainMapping]
) -> SeedRun:
    """Return a run as a seed; its settings may be nested, and keys that begin with _ are wandb's.

    The records of our own runs have a kind (`update/mean_return`), of which one is read.
    """
    public = {key: value for key, value in config.items() if not key.startswith("_")}
    settings = {key: _literal(value) for key, value in flatten(public).items()}
    seed, agents = seed_name(settings, identity), 1
    prefixes = {key.partition("/")[0] for row in rows for key in row if "/" in key}
    kind = next((kind for kind in _KINDS if kind in prefixes), None)
    if kind is not None:
        rows = [
            {key.removeprefix(f"{kind}/"): value for key, value in row.items()}
            for row in rows
            if any(key.startswith(f"{kind}/") for key in row)
        ]
    if _RUN_ID in settings:
        settings = {key: value for key, value in settings.items() if not key.startswith(_OURS)}
        agent = settings.pop(_AGENT, MEAN)
        agents = settings.get("seeds", 1) if kind == "update" else 1
        if agents > 1 or agent != MEAN:
            seed = f"{seed}/{agent}"
    return seed_run(name, seed, settings, rows, agents)


def _literal(value: Any) -> Any:
    """Parse a setting from text, because MLflow stores all settings as text."""
    if not isinstance(value, str):
        return value
    try:
        read = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value
    return read if isinstance(read, int | float | bool | list | dict | None) else value


# --- wandb --------------------------------------------------------------------------------------


def _read_wandb(text: str) -> Iterator[_Found]:
    import wandb

    where = text.removeprefix(WANDB)
    if Path(where).exists():
        yield from map(_from_file, _offline(Path(where)))
        return
    parts = where.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"{text}: neither a directory nor wandb:ENTITY/PROJECT[/RUN]")
    api = wandb.Api(timeout=30)
    for run in [api.run(where)] if len(parts) == 3 else api.runs(where):
        name = f"{WANDB}{parts[0]}/{parts[1]}/{run.id}"
        rows = list(run.scan_history())
        yield tracked(name, run.id, run.config, rows), run.state == "finished"


def _offline(path: Path) -> list[Path]:
    """Return the file of an offline directory, or the files of all runs below it."""
    files = [path] if path.suffix == ".wandb" else sorted(path.rglob("run-*.wandb"))
    # `latest-run` is a link to another run.
    files = [file for file in files if not file.parent.is_symlink() and file.is_file()]
    if not files:
        raise ConfigError(f"{WANDB}{path}: holds no offline wandb run (no file run-*.wandb)")
    return files


def _from_file(path: Path) -> _Found:
    config: PlainDict = {}
    rows: list[PlainDict] = []
    complete = False
    for record in _records(path):
        match record["type"]:
            case "run":
                config |= record["run"].get("config", {}).get("update", {})
            case "config":
                config |= record["config"].get("update", {})
            case "history":
                rows.append(record["history"].get("item", {}))
            case "exit":
                complete = not record["exit"].get("exit_code", 0)
    identity = path.stem.removeprefix("run-")
    return tracked(f"{WANDB}{path.parent}", identity, config, rows), complete


def _records(path: Path) -> Iterator[PlainDict]:
    """Yield the records of a .wandb file with wandb's reader; the format is undocumented."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
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


# --- MLflow -------------------------------------------------------------------------------------


def _read_mlflow(text: str) -> Iterator[_Found]:
    """Yield the runs of an experiment, with nested runs instead of their parents."""
    from mlflow.tracking import MlflowClient

    uri, mark, name = text.removeprefix(MLFLOW).rpartition("#")
    if not (uri and mark and name):
        raise ConfigError(f"{text}: must be mlflow:URI#EXPERIMENT")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():
        # MLflow would create an empty one.
        raise ConfigError(f"{text}: there is no database {uri.removeprefix(_SQLITE)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow uses deprecated functions of SQLAlchemy
        client = MlflowClient(uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            known = ", ".join(sorted(each.name for each in client.search_experiments())) or "none"
            raise ConfigError(f"{text}: no experiment {name!r}; there are: {known}")
        found = client.search_runs([experiment.experiment_id], max_results=_MOST_RUNS)
        runs = {run.info.run_id: run for run in found}
        parents = {run.data.tags.get(_PARENT) for run in found}
        for key, run in runs.items():
            if key not in parents:
                parent = runs.get(run.data.tags.get(_PARENT, ""))
                yield _from_mlflow(client, parent, run, name)


def _from_mlflow(client: Any, parent: Any, run: Any, experiment: str) -> _Found:
    config = {**(parent.data.params if parent else {}), **run.data.params}
    rows: dict[int, PlainDict] = {}
    for key in run.data.metrics:
        for entry in client.get_metric_history(run.info.run_id, key):
            seconds = (entry.timestamp - run.info.start_time) / 1000
            row = rows.setdefault(entry.step, {"_step": entry.step, "_runtime": seconds})
            row[key] = entry.value
    name = str(run.info.run_name or run.info.run_id)
    if parent and not name.startswith(f"{parent.info.run_name}/"):
        name = f"{parent.info.run_name}/{name}"
    ordered = [rows[step] for step in sorted(rows)]
    seed = tracked(f"{MLFLOW}{experiment}/{name}", run.info.run_id, config, ordered)
    return seed, run.info.status == "FINISHED"
