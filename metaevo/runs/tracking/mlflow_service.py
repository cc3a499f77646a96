"""MLflow: a database, by default a file of sqlite, without a server."""

import os
from pathlib import Path
from typing import Any

from metaevo.config import flatten
from metaevo.runs.files import locked
from metaevo.runs.tracking.destination import sqlite_file
from metaevo.runs.tracking.service import About, PermanentError, Remote, Row, Status
from metaevo.runs.tracking.state import State

RUN_ID = "metaevo.run_id"
"""Tag by which a run is found again."""
_PER_CALL = 1000  # metrics, the most that MLflow takes
_PARAMS_PER_CALL = 100
_STATUS: dict[Status, str] = {"finished": "FINISHED", "stopped": "KILLED"}


class MlflowService:
    """Opens MLflow runs through the client, not the fluent API, which keeps global state."""

    def __init__(self, uri: str) -> None:
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):  # it would ask its makers' server
            os.environ[name] = "true"
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # no complaint where there is no git
        self._file = sqlite_file(uri)
        try:
            from mlflow import MlflowClient

            if self._file is not None:
                _create(self._file)
            self._client = MlflowClient(uri)
        except ImportError as error:
            raise PermanentError(
                f"a package is missing ({error}); pip install 'metaevo[mlflow]'"
            ) from error

    def open(self, about: About, state: State, parent: str | None) -> Remote:
        """Open a run: the one with this id in the experiment, or a new one."""
        from mlflow.entities import Param

        client = self._client
        experiment = self._experiment(about.project)
        run = client.get_run(state.remote) if state.remote else None
        if run is None:
            found = client.search_runs([experiment], f"tags.`{RUN_ID}` = '{about.id}'")
            run = found[0] if found else None
        if run is None:
            run = client.create_run(
                experiment,
                start_time=int(about.started * 1000),
                tags=_tags(about, parent),
                run_name=about.name,
            )
        elif run.info.status != "RUNNING":
            client.update_run(run.info.run_id, status="RUNNING")
        known = run.data.params  # a parameter cannot change
        settings = {**flatten(about.config), **flatten({"environment": about.environment})}
        params = [Param(key, str(value)) for key, value in settings.items() if key not in known]
        for start in range(0, len(params), _PARAMS_PER_CALL):
            client.log_batch(run.info.run_id, params=params[start : start + _PARAMS_PER_CALL])
        return MlflowRun(client, run.info.run_id, about.started)

    def _experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        where = None  # a server knows its own
        if self._file is not None:
            where = (self._file.parent / f"{self._file.stem}_artifacts").as_uri()
        return str(self._client.create_experiment(name, artifact_location=where))


class MlflowRun:
    """An MLflow run, open. A call that returns has written to the database.

    The same metric at the same step and time is stored once, so what was sent may be sent again.
    """

    confirms = True
    rows: int | None = None
    segment: str | None = None

    def __init__(self, client: Any, run_id: str, started: float) -> None:
        self._client, self._started, self.id = client, started, run_id

    def log(self, rows: list[Row], first: int) -> None:
        """Log rows as metrics `kind/name` with the index as their step."""
        from mlflow.entities import Metric

        del first
        metrics = [
            Metric(f"{row.kind}/{key}", value, self._milliseconds(row.seconds), row.step)
            for row in rows
            for key, value in row.values.items()
        ]
        for start in range(0, len(metrics), _PER_CALL):
            self._client.log_batch(self.id, metrics=metrics[start : start + _PER_CALL])

    def log_artifact(self, path: Path, name: str) -> None:
        """Copy a file or a directory to the experiment's artifacts."""
        if path.is_dir():
            self._client.log_artifacts(self.id, str(path), artifact_path=Path(name).name)
        else:
            self._client.log_artifact(self.id, str(path))

    def finish(self, status: Status) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self.id, _STATUS[status])

    def _milliseconds(self, seconds: float) -> int:
        return int((self._started + seconds) * 1000)


def _create(file: Path) -> None:
    """Create a database that is complete, or absent if this process is killed meanwhile.

    MLflow takes seconds for it, and never opens one that was left half-made; nor does it bear
    that two processes create one at once.
    """
    from mlflow import MlflowClient

    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_name(f".{file.name}.lock")):
        if file.exists():
            return
        new = file.with_name(f".{file.name}.new")
        new.unlink(missing_ok=True)
        MlflowClient(f"sqlite:///{new}").search_experiments()
        new.replace(file)


def _tags(about: About, parent: str | None) -> dict[str, str]:
    environment = about.environment
    tags = {
        RUN_ID: about.id,
        "group": about.group,
        "job_type": about.job_type,
        "run_directory": str(about.folder),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": str(environment.get("command_line", "")),
    }
    if git := environment.get("git"):
        tags["mlflow.source.git.commit"] = git["commit"]
    if parent is not None:
        tags["mlflow.parentRunId"] = parent
    return tags
