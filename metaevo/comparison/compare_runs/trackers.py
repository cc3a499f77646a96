"""Runs in wandb and MLflow, of metaevo and of other programs."""

import ast
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metaevo.comparison.compare_runs.seed_run import AGENT, RUN_ID, SeedRun, Source
from metaevo.config import ConfigError, flatten
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.metrics import numbers
from metaevo.statistics import FloatArray

WANDB, MLFLOW = "wandb:", "mlflow:"
_SQLITE = "sqlite:///"
_PARENT = "mlflow.parentRunId"
_TIMEOUT = 120
"""Seconds for wandb's reader of one offline run."""
_MOST_RUNS = 50_000
"""Runs that MLflow returns at once."""
_STATES = {"finished": "finished", "running": "still going on", "scheduled": "still going on",
           "failed": "failed", "killed": "stopped"}  # fmt: skip
_KINDS = ("update", "generation", "trial", "evaluation")
_AXES = {
    "steps": (
        "frames", "global_step", "env_steps", "environment_steps", "total_timesteps", "timesteps",
        "total_steps", "_step",
    ),
    "generations": ("generation", "index", "epoch", "iteration", "_step"),
    "seconds": ("seconds", "_runtime", "_timestamp"),
}  # fmt: skip
_DEFAULTS = (
    "mean_return", "fitness_of_mean", "best_value", "value", "episodic_return", "episode_return",
    "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean", "fitness",
)  # fmt: skip


def seed_run(
    name: str, config: PlainMapping, rows: Sequence[PlainMapping], identity: str
) -> SeedRun | None:
    """Return a run as one seed; None if it has no numbers yet.

    Args:
        name: name of the run.
        config: settings, nested or dotted; keys that begin with _ belong to wandb.
        rows: the history; names of our trackers (`update/mean_return`) lose their prefix.
        identity: name of the seed if the settings contain none.
    """
    own = {key: value for key, value in config.items() if not key.startswith("_")}
    settings = flatten({key: _literal(value) for key, value in flatten(own).items()})
    prefixes = {key.partition("/")[0] for row in rows for key in row if "/" in key}
    kind = next((kind for kind in _KINDS if kind in prefixes), None)
    metrics = _columns(rows, kind)
    axes = {
        axis: next(metrics[each] for each in names if each in metrics)
        for axis, names in _AXES.items()
        if metrics.keys() & set(names)
    }
    if not axes:
        return None
    if "_timestamp" in metrics and axes.get("seconds") is metrics["_timestamp"]:
        axes["seconds"] = axes["seconds"] - np.nanmin(axes["seconds"])
    agents = settings.get("seeds")
    if kind == "update" and isinstance(agents, int) and agents > 0:
        axes["steps"] = axes["steps"] / agents  # our frames count all agents
    metrics = {key: values for key, values in metrics.items()
               if key != "index" and not key.startswith("_")}  # fmt: skip
    default = next((one for one in _DEFAULTS if one in metrics), None)
    seeds = [settings[key] for key in sorted(settings) if key.rpartition(".")[2] == "seed"]
    if RUN_ID in settings and AGENT in settings:  # the name of the seed in the run directory
        seeds.append(settings[AGENT])
    seed = "/".join(map(str, seeds)) if seeds else identity
    return SeedRun(name, seed, settings, axes, metrics, default)


def _columns(rows: Sequence[PlainMapping], kind: str | None) -> dict[str, FloatArray]:
    """Return the numeric columns: one kind of our records, or all of another program."""
    if kind is not None:
        rows = [row for row in rows if any(key.startswith(f"{kind}/") for key in row)]
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key.removeprefix(f"{kind}/"): numbers(row.get(key) for row in rows) for key in keys}
    return {name: values for name, values in columns.items() if np.isfinite(values).any()}


def _literal(value: Any) -> Any:
    """Parse a setting from text, because MLflow stores all settings as text."""
    if not isinstance(value, str):
        return value
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return read if isinstance(read, int | float | bool | list | dict | None) else value


def without_means(sources: list[Source]) -> list[Source]:
    """Remove tracked runs that average agents if the agents have separate runs."""

    def run_id(source: Source) -> Any:
        return source.seeds[0].config.get(RUN_ID) if source.seeds else None

    single = {run_id(each) for each in sources if each.seeds and AGENT in each.seeds[0].config}
    single.discard(None)
    return [each for each in sources if run_id(each) not in single or AGENT in each.seeds[0].config]


def _source(name: str, kind: str, seed: SeedRun | None, state: str) -> Source:
    return Source(name, kind, [seed] if seed else [], _STATES.get(state.lower(), state))


# --- wandb --------------------------------------------------------------------------------------


def read_wandb(text: str, make_api: Callable[[], Any] | None = None) -> list[Source]:
    """Return the runs of `wandb:DIRECTORY` (offline) or `wandb:ENTITY/PROJECT[/RUN]`.

    `make_api` returns a `wandb.Api`.

    Raises:
        ConfigError: there are no runs, or wandb cannot be reached.
    """
    where = text.removeprefix(WANDB)
    if Path(where).exists():
        return _offline(Path(where))
    parts = where.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"{text}: neither a directory nor wandb:ENTITY/PROJECT[/RUN]")
    project = f"{WANDB}{parts[0]}/{parts[1]}"
    try:
        api = (make_api or _api)()
        runs = [api.run(where)] if len(parts) == 3 else list(api.runs(where))
        found = without_means([_online(f"{project}/{run.id}", run) for run in runs])
    except Exception as error:  # wandb, requests and the operating system each have their own
        raise ConfigError(f"{text}: wandb cannot be read: {error}") from None
    if not found:
        raise ConfigError(f"{text}: there is no wandb run")
    return found


def _api() -> Any:
    import wandb

    return wandb.Api(timeout=30)


def _online(name: str, run: Any) -> Source:
    seed = seed_run(name, run.config, list(run.scan_history()), run.id)
    return _source(name, "wandb", seed, run.state)


def _offline(path: Path) -> list[Source]:
    """Return the run of an offline directory, or all runs below it."""
    files = [path] if path.suffix == ".wandb" else sorted(path.rglob("run-*.wandb"))
    # `latest-run` is a link to another run.
    files = [file for file in files if not file.parent.is_symlink() and file.is_file()]
    if not files:
        raise ConfigError(f"{WANDB}{path}: holds no offline wandb run (no file run-*.wandb)")
    return without_means([_from_file(file) for file in files])


def _from_file(path: Path) -> Source:
    config: PlainDict = {}
    rows: list[PlainDict] = []
    state = "still going on or killed"  # the state of an offline run is recorded at its end
    for record in _records(path):
        match record["type"]:
            case "run":
                config |= record["run"].get("config", {}).get("update", {})
            case "config":
                config |= record["config"].get("update", {})
            case "history":
                rows.append(record["history"].get("item", {}))
            case "exit":
                state = "failed" if record["exit"].get("exit_code", 0) else "finished"
    name, identity = f"{WANDB}{path.parent}", path.stem.removeprefix("run-")
    return _source(name, "wandb offline", seed_run(name, config, rows, identity), state)


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


def read_mlflow(text: str) -> list[Source]:
    """Return the runs of `mlflow:URI#EXPERIMENT`, with nested runs instead of their parents.

    Raises:
        ConfigError: there are no runs, MLflow is not installed, or the store cannot be read.
    """
    uri, mark, experiment = text.removeprefix(MLFLOW).rpartition("#")
    if not (uri and mark and experiment):
        raise ConfigError(f"{text}: must be mlflow:URI#EXPERIMENT")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():
        # MLflow would create an empty one.
        raise ConfigError(f"{text}: there is no database {uri.removeprefix(_SQLITE)}")
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        reason = "MLflow is not installed: pip install 'metaevo[mlflow]'"
        raise ConfigError(f"{text}: {reason}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow uses deprecated functions of SQLAlchemy
        try:
            return _read_experiment(MlflowClient(uri), text, experiment)
        except ConfigError:
            raise
        except Exception as error:  # of MLflow, SQLAlchemy, its driver, or the network
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"{text}: MLflow cannot be read: {reason}") from None


def _read_experiment(client: Any, text: str, name: str) -> list[Source]:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        known = ", ".join(sorted(each.name for each in client.search_experiments())) or "none"
        raise ConfigError(f"{text}: no experiment {name!r}; there are: {known}")
    found = client.search_runs([experiment.experiment_id], max_results=_MOST_RUNS)
    runs = {run.info.run_id: run for run in found}
    parents = {run.data.tags.get(_PARENT) for run in found}
    leaves = [run for key, run in runs.items() if key not in parents]
    if not leaves:
        raise ConfigError(f"{text}: the experiment has no run")
    return [
        _from_mlflow(client, runs.get(run.data.tags.get(_PARENT, "")), run, name) for run in leaves
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
    seed = seed_run(name, config, [rows[step] for step in sorted(rows)], run.info.run_id)
    return _source(name, "mlflow", seed, run.info.status)
