"""Reading MLflow: the runs of an experiment, nested ones as the seeds or trials that they are."""

import importlib
import warnings
from pathlib import Path
from typing import Any

from metaevo.comparison.compare_runs.seed_run import Source
from metaevo.comparison.compare_runs.tracked_runs import literal, seed_run
from metaevo.config import ConfigError

PREFIX = "mlflow:"
_SQLITE = "sqlite:///"
_PARENT = "mlflow.parentRunId"
_STATES = {
    "FINISHED": "finished", "RUNNING": "still going on", "SCHEDULED": "still going on",
    "FAILED": "failed", "KILLED": "stopped",
}  # fmt: skip


def read(text: str) -> list[Source]:
    """The runs of `mlflow:URI#EXPERIMENT`; a run with nested ones stands for those.

    Raises:
        ConfigError: there are none, MLflow is not installed, or the store cannot be read.
    """
    uri, mark, experiment = text.removeprefix(PREFIX).rpartition("#")
    if not (uri and mark and experiment):
        raise ConfigError(f"{text}: must be mlflow:URI#EXPERIMENT")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():
        # MLflow would make an empty one.
        raise ConfigError(f"{text}: there is no database {uri.removeprefix(_SQLITE)}")
    try:
        client_class = importlib.import_module("mlflow.tracking").MlflowClient
    except ImportError:
        raise ConfigError(
            f"{text}: MLflow is not installed: pip install 'metaevo[mlflow]'"
        ) from None
    with warnings.catch_warnings():
        # MLflow calls deprecated functions of SQLAlchemy, which is between those two.
        warnings.simplefilter("ignore")
        try:
            return _read(client_class(uri), text, experiment)
        except ConfigError:
            raise
        except Exception as error:  # of MLflow, of SQLAlchemy, of its driver, of the network
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"{text}: MLflow cannot be read: {reason}") from None


def _read(client: Any, text: str, name: str) -> list[Source]:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        known = ", ".join(sorted(each.name for each in client.search_experiments())) or "none"
        raise ConfigError(f"{text}: no experiment {name!r}; there are: {known}")
    runs = {run.info.run_id: run for run in _all(client, experiment.experiment_id)}
    parents = {run.data.tags.get(_PARENT) for run in runs.values()}
    leaves = [run for key, run in runs.items() if key not in parents]
    if not leaves:
        raise ConfigError(f"{text}: the experiment has no run")
    return [_source(client, runs, run, name) for run in leaves]


def _all(client: Any, experiment: str) -> list[Any]:
    runs: list[Any] = []
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        runs, token = [*runs, *page], page.token
        if not token:
            return runs


def _source(client: Any, runs: dict[str, Any], run: Any, experiment: str) -> Source:
    parent = runs.get(run.data.tags.get(_PARENT, ""))
    config = {**(parent.data.params if parent else {}), **run.data.params}
    rows: dict[int, dict[str, Any]] = {}
    for key in run.data.metrics:
        for entry in client.get_metric_history(run.info.run_id, key):
            row = rows.setdefault(
                entry.step, {"_step": entry.step, "_timestamp": entry.timestamp / 1000}
            )
            row[key] = entry.value
    name = f"{PREFIX}{experiment}/{run.info.run_name or run.info.run_id}"
    if parent and not str(run.info.run_name).startswith(f"{parent.info.run_name}/"):
        name = f"{PREFIX}{experiment}/{parent.info.run_name}/{run.info.run_name}"
    settings = {key: literal(value) for key, value in config.items()}
    seed = seed_run(name, settings, [rows[step] for step in sorted(rows)], run.info.run_id)
    state = _STATES.get(run.info.status, run.info.status.lower())
    return Source(name, "mlflow", [seed] if seed else [], state)
