"""Weights & Biases and MLflow: a run hands its records to their own clients.

The run directory has the same records, so a service that fails costs a warning and nothing else.
"""

import functools
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

from metaevo.config import ConfigError, flatten
from metaevo.config.plain import PlainDict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import RecordConfig, tracking_uri

ARTIFACTS = (
    "evaluation.json", "scores.npz", "unseen.npz", "trials.csv", "best.yaml",
    "learning_curves.csv", "figures", "meta_params.npz", "report.html",
)  # fmt: skip
"""files and folders that are sent at the end"""
RUN_ID = "metaevo.run_id"
"""MLflow's tag that identifies a run"""
_START_SECONDS, _FINISH_SECONDS = 20.0, 60.0
"""most seconds that wandb waits for its server at the start and at the end of a run"""
_ENVIRONMENT = {
    "WANDB_SILENT": "true",
    "WANDB_X_SERVICE_WAIT": "300",  # its process starts slowly on a busy machine
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}


class About(NamedTuple):
    """Identity and settings of a run, as services show them."""

    id: str
    """the same after a resume"""
    name: str
    job_type: str
    project: str
    """wandb's project, MLflow's experiment"""
    config: PlainDict
    """settings, and the environment: versions, devices, git commit, command line"""
    started: float
    """seconds since 1970"""
    folder: Path
    """the run directory, by whose name services group the run and its nested runs"""


class _Client(Protocol):
    """A run that is open at a service, under an id there."""

    id: str

    def log(self, records: Sequence[PlainDict]) -> None:
        """Hand over records; those that the service already has are skipped."""

    def log_artifact(self, path: Path) -> None:
        """Hand over a file or a folder."""

    def finish(self, *, completed: bool) -> None:
        """Set the final status, and wait until everything has arrived."""


class Trackers:
    """The services in the settings of a run; each is opened with the first record."""

    def __init__(self, directory: RunDirectory, settings: RecordConfig) -> None:
        self._directory, self._project = directory, settings.wandb_project
        self._open: dict[str, Callable[[About, str | None], _Client]] = {}
        """by service: opens or creates a run, nested in the run with an id at the service"""
        self._clients: dict[str, _Client] = {}
        if settings.wandb != "disabled":
            is_online = settings.wandb == "online"
            self._open[f"wandb ({settings.wandb})"] = functools.partial(_Wandb, is_online)
        if settings.mlflow:
            uri = tracking_uri(settings.mlflow)
            shown = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", uri)
            self._open[f"mlflow ({shown})"] = functools.partial(_Mlflow, uri)

    def log(self, record: PlainDict) -> None:
        """Hand over a record that metrics.jsonl already has."""
        self._each(lambda service: self._client(service).log([record]))

    def log_nested(
        self, name: str, job_type: str, config: PlainDict, records: Sequence[PlainDict]
    ) -> None:
        """Hand over a finished run in this run; `config` are the settings that differ."""

        def send(service: str) -> None:
            outer, about = self._client(service), self._about()
            own = about._replace(
                id=f"{about.id}-{name}",
                name=f"{about.name}/{name}",
                job_type=job_type,
                config={**flatten(about.config), **config},
            )
            inner = self._open[service](own, outer.id)
            inner.log(records)
            inner.finish(completed=True)

        self._each(send)

    def close(self) -> None:
        """Hand over the artifacts and the status, and close the run."""

        def send(service: str) -> None:
            client = self._client(service)
            for path in (self._directory.path / name for name in ARTIFACTS):
                if path.exists():
                    client.log_artifact(path)
            client.finish(completed=self._directory.report_path.is_file())

        self._each(send)

    def _each(self, send: Callable[[str], None]) -> None:
        """Call the clients of all services; one that fails is not called again."""
        for service in list(self._open):
            try:
                send(service)
            except Exception as error:  # no exception of a client may reach the run
                del self._open[service]
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                tqdm.write(
                    f"warning: {service}: {reason}; the run continues without it",
                    file=sys.stderr,
                )

    def _client(self, service: str) -> _Client:
        """Open the run at a service, and hand over the records until now."""
        if service not in self._clients:
            for name, value in _ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            client = self._clients[service] = self._open[service](self._about(), None)
            client.log([record for _, record in self._directory.lines()])
        return self._clients[service]

    def _about(self) -> About:
        saved, path = self._directory.read_config(), self._directory.path.absolute()
        resolved, environment = saved["resolved"], saved["environment"]
        return About(
            id=resolved["run_id"],
            name=path.name,
            job_type=resolved["job_type"],
            project=self._project,
            config={**saved["config"], "resolved": resolved, "environment": environment},
            started=datetime.fromisoformat(environment["started"]).timestamp(),
            folder=path,
        )


def numbers_of(record: PlainDict) -> dict[str, float]:
    """Return the numbers of a record as `kind/name`, without its index."""
    kind = record["kind"]
    return {
        f"{kind}/{name}": value
        for name, value in flatten(record).items()
        if name != kind and type(value) in (int, float)
    }


class _Wandb:
    """A run of wandb: its client passes data to a process that writes or sends it."""

    def __init__(self, is_online: bool, about: About, parent: str | None) -> None:
        import wandb  # takes seconds

        if is_online and not wandb.login(prompt=False):
            raise ConfigError("no API key: run `wandb login` first")
        if not is_online:  # cannot be continued, so its records are written again
            for folder in (about.folder / "wandb").glob(f"offline-run-*-{about.id}"):
                shutil.rmtree(folder)
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=_START_SECONDS if is_online else 300.0,
            login_timeout=_START_SECONDS,
            finish_timeout=_FINISH_SECONDS,
            finish_timeout_raises=True,
            reinit="create_new",  # nested runs are open at the same time
            x_disable_stats=True,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
        )
        self._run = wandb.init(
            mode="online" if is_online else "offline",
            dir=about.folder,
            project=about.project,
            id=about.id,
            name=about.name,
            group=about.folder.name,
            job_type=about.job_type,
            config=about.config,
            allow_val_change=True,
            resume="allow" if is_online else None,
            settings=settings,
        )
        self._last: dict[str, float] = {}
        """last index of each kind that the service has"""
        self.id = str(self._run.id)

    def log(self, records: Sequence[PlainDict]) -> None:
        for record in records:
            kind, index = record["kind"], record[record["kind"]]
            if kind not in self._last:
                self._last[kind] = self._run.summary.get(f"{kind}/index", -1)
                self._run.define_metric(f"{kind}/index")
                self._run.define_metric(f"{kind}/*", step_metric=f"{kind}/index")
            if index > self._last[kind]:
                self._run.log({f"{kind}/index": index, **numbers_of(record)})
                self._last[kind] = index

    def log_artifact(self, path: Path) -> None:
        import wandb

        title = re.sub(r"[^\w.-]", "_", f"{self.id}-{path.name}")
        artifact = wandb.Artifact(title, type=path.suffix.removeprefix(".") or "directory")
        add = artifact.add_dir if path.is_dir() else artifact.add_file
        add(str(path), policy="immutable")  # which avoids a copy outside of the run directory
        self._run.log_artifact(artifact)

    def finish(self, *, completed: bool) -> None:
        self._run.finish(exit_code=0 if completed else 1)


class _Mlflow:
    """A run of MLflow, opened without the fluent API because that keeps global state."""

    def __init__(self, uri: str, about: About, parent: str | None) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Param
        except ImportError as error:
            raise ConfigError(f"{error}: pip install 'metaevo[mlflow]'") from error
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self._client: Any = MlflowClient(uri)
        self._started = about.started
        settings = flatten(about.config)
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
                "mlflow.source.name": settings.get("environment.command_line"),
                "mlflow.source.git.commit": settings.get("environment.git.commit"),
                "mlflow.parentRunId": parent,
            }
            run = self._client.create_run(
                experiment,
                start_time=int(about.started * 1000),
                tags={name: value for name, value in tags.items() if value is not None},
                run_name=about.name,
            )
        self.id = str(run.info.run_id)
        sent = run.data.params  # parameters cannot change
        params = [Param(key, str(value)) for key, value in settings.items() if key not in sent]
        self._client.log_batch(self.id, params=params)

    def log(self, records: Sequence[PlainDict]) -> None:
        """Log metrics; MLflow stores those with the same name, value, step and time only once."""
        from mlflow.entities import Metric

        found = []
        for record in records:
            time = int((self._started + record.get("seconds", 0.0)) * 1000)
            index = record[record["kind"]]
            found += [Metric(name, x, time, index) for name, x in numbers_of(record).items()]
        self._client.log_batch(self.id, metrics=found)

    def log_artifact(self, path: Path) -> None:
        if path.is_dir():
            self._client.log_artifacts(self.id, str(path), path.name)
        else:
            self._client.log_artifact(self.id, str(path))

    def finish(self, *, completed: bool) -> None:
        self._client.set_terminated(self.id, "FINISHED" if completed else "KILLED")
