"""MLflow: a server, or by default a database of sqlite in a file."""

import logging
import os
from pathlib import Path

from metaevo.config import ConfigError, flatten
from metaevo.config.plain import PlainDict
from metaevo.runs.tracking.remote import About, files_in, numbers_of

RUN_ID = "metaevo.run_id"
"""tag that identifies a run"""
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}


class MlflowRun:
    """An MLflow run, opened without the fluent API because that keeps global state."""

    def __init__(self, about: About, uri: str, parent: str | None) -> None:
        """Open the run with this id, or create it; `parent` is the id of the outer run."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Param
        except ImportError as error:
            raise ConfigError(f"{error}: pip install 'metaevo[mlflow]'") from error
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self._client, self._started = MlflowClient(uri), about.started
        if known := self._client.get_experiment_by_name(about.project):
            experiment = known.experiment_id
        else:
            where = None
            if uri.startswith("sqlite:///"):
                file = Path(uri.removeprefix("sqlite:///"))
                where = file.with_name(f"{file.stem}_artifacts").as_uri()
            experiment = self._client.create_experiment(about.project, artifact_location=where)
        found = self._client.search_runs([experiment], f"tags.`{RUN_ID}` = '{about.id}'")
        if found:
            run = found[0]
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            tags = {
                RUN_ID: about.id,
                "group": about.folder.name,
                "job_type": about.job_type,
                "run_directory": str(about.folder),
                "mlflow.source.name": str(about.environment.get("command_line", "")),
                "mlflow.source.git.commit": (about.environment.get("git") or {}).get("commit"),
                "mlflow.parentRunId": parent,
            }
            run = self._client.create_run(
                experiment,
                start_time=int(about.started * 1000),
                tags={name: value for name, value in tags.items() if value is not None},
                run_name=about.name,
            )
        self.id = str(run.info.run_id)
        settings = flatten({**about.config, "environment": about.environment}).items()
        sent = run.data.params  # parameters cannot change
        params = [Param(key, str(value)) for key, value in settings if key not in sent]
        self._client.log_batch(self.id, params=params)

    def log(self, records: list[PlainDict]) -> None:
        """Log records as metrics `kind/name` with the index as their step.

        MLflow stores metrics with the same name, value, step and time only once.
        """
        from mlflow.entities import Metric

        metrics = []
        for record in records:
            time = int((self._started + record.get("seconds", 0.0)) * 1000)
            index = record[record["kind"]]
            metrics += [Metric(name, x, time, index) for name, x in numbers_of(record).items()]
        self._client.log_batch(self.id, metrics=metrics)

    def log_artifact(self, path: Path) -> None:
        """Copy a file or a folder to the experiment's artifacts."""
        for file in files_in(path):
            folder = file.parent.relative_to(path.parent).as_posix()
            self._client.log_artifact(self.id, str(file), None if folder == "." else folder)

    def finish(self, *, completed: bool) -> None:
        """Set the final status."""
        self._client.set_terminated(self.id, "FINISHED" if completed else "KILLED")
