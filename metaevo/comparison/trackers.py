"""Runs in wandb and MLflow, of metaevo and of other programs."""

import ast
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from metaevo.comparison.seed_run import AGENT, RUN_ID, Source, seed_run
from metaevo.config import ConfigError, flatten
from metaevo.config.plain import PlainDict, PlainMapping

WANDB, MLFLOW = "wandb:", "mlflow:"
_SQLITE = "sqlite:///"
_PARENT = "mlflow.parentRunId"
_TIMEOUT = 120
"""Seconds for wandb's reader of one offline run."""
_MOST_RUNS = 50_000
"""Runs that MLflow returns at once."""


def read(text: str) -> list[Source]:
    """Return the runs of a tracker, as named on the command line.

    Raises:
        ConfigError: there are no runs, or they cannot be read.
    """
    tracker = text.partition(":")[0]
    try:
        found = _read_wandb(text) if tracker == "wandb" else _read_mlflow(text)
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
    return without_means(found)


def without_means(sources: list[Source]) -> list[Source]:
    """Remove tracked runs that average agents if the agents have separate runs."""

    def run_id(source: Source) -> Any:
        return source.seeds[0].config.get(RUN_ID) if source.seeds else None

    single = {run_id(each) for each in sources if each.seeds and AGENT in each.seeds[0].config}
    single.discard(None)
    return [each for each in sources if run_id(each) not in single or AGENT in each.seeds[0].config]


def _source(
    name: str,
    config: PlainMapping,
    rows: Sequence[PlainMapping],
    identity: str,
    complete: bool,
) -> Source:
    settings = {key: _literal(value) for key, value in flatten(dict(config)).items()}
    seed = seed_run(name, settings, rows, identity)
    return Source(name, [seed] if seed else [], complete)


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


def _read_wandb(text: str) -> list[Source]:
    import wandb

    where = text.removeprefix(WANDB)
    if Path(where).exists():
        return _offline(Path(where))
    parts = where.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"{text}: neither a directory nor wandb:ENTITY/PROJECT[/RUN]")
    api = wandb.Api(timeout=30)
    found = []
    for run in [api.run(where)] if len(parts) == 3 else api.runs(where):
        name = f"{WANDB}{parts[0]}/{parts[1]}/{run.id}"
        rows = list(run.scan_history())
        found.append(_source(name, run.config, rows, run.id, run.state == "finished"))
    return found


def _offline(path: Path) -> list[Source]:
    """Return the run of an offline directory, or all runs below it."""
    files = [path] if path.suffix == ".wandb" else sorted(path.rglob("run-*.wandb"))
    # `latest-run` is a link to another run.
    files = [file for file in files if not file.parent.is_symlink() and file.is_file()]
    if not files:
        raise ConfigError(f"{WANDB}{path}: holds no offline wandb run (no file run-*.wandb)")
    return [_from_file(file) for file in files]


def _from_file(path: Path) -> Source:
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
    name, identity = f"{WANDB}{path.parent}", path.stem.removeprefix("run-")
    return _source(name, config, rows, identity, complete)


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


def _read_mlflow(text: str) -> list[Source]:
    """Return the runs of an experiment, with nested runs instead of their parents."""
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
        return [
            _from_mlflow(client, runs.get(run.data.tags.get(_PARENT, "")), run, name)
            for key, run in runs.items()
            if key not in parents
        ]


def _from_mlflow(client: Any, parent: Any, run: Any, experiment: str) -> Source:
    config = {**(parent.data.params if parent else {}), **run.data.params}
    rows: dict[int, PlainDict] = {}
    for key in run.data.metrics:
        for entry in client.get_metric_history(run.info.run_id, key):
            row = rows.setdefault(
                entry.step, {"_step": entry.step, "_timestamp": entry.timestamp / 1000}
            )
            row[key] = entry.value
    name = str(run.info.run_name or run.info.run_id)
    if parent and not name.startswith(f"{parent.info.run_name}/"):
        name = f"{parent.info.run_name}/{name}"
    name = f"{MLFLOW}{experiment}/{name}"
    ordered = [rows[step] for step in sorted(rows)]
    return _source(name, config, ordered, run.info.run_id, run.info.status == "FINISHED")
