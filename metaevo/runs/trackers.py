"""Weights & Biases and MLflow: a run hands its records to their own clients.

The run directory has the same records, so a service that fails costs a warning and nothing else.
"""

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from metaevo.config import ConfigError, PlainDict, flatten
from metaevo.runs.finding import evolutions_in, is_finished
from metaevo.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from metaevo.runs.run import RecordConfig

ARTIFACTS = (
    "evaluation.json", "scores.npz", "unseen.npz", "trials.csv", "best.yaml",
    "learning_curves.csv", "figures", "meta_params.npz", "report.html",
)  # fmt: skip
"""files and folders that are sent at the end"""
OF_AGENTS = "returns", "evaluation_returns"
"""Entries of a record with a number for every agent of a training."""
PROJECT = "metaevo"
AGENTS = 64
"""most agents of a training whose returns are metrics of their own (`update/returns.0`)"""
RUN_ID = "metaevo.run_id"
"""MLflow's tag that identifies a run"""
LOCAL_DATABASE = "mlruns.db"
"""MLflow's database `local`, in the working directory"""


_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")

_START_SECONDS, _FINISH_SECONDS = 20.0, 60.0
"""most seconds that wandb waits for its server at the start and at the end of a run"""
_ENVIRONMENT = {
    "WANDB_SILENT": "true",
    "WANDB_X_SERVICE_WAIT": "300",  # its process starts slowly on a busy machine
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}


class _Wandb:
    """A run of wandb: its client passes data to a process that writes or sends it."""

    def __init__(self, directory: RunDirectory, settings: "RecordConfig") -> None:
        import wandb  # takes seconds

        is_online = settings.wandb_mode == "online"
        if is_online and not wandb.login(prompt=False):
            raise ConfigError("no API key: run `wandb login` first")
        config, folder = _settings(directory), directory.path.absolute()
        run_id = config["resolved"]["run_id"]

        def chosen(given: str | None, variable: str, default: str | None) -> str | None:
            return given or os.environ.get(variable) or default

        if not is_online:  # cannot be continued, so its records are written again
            for before in (folder / "wandb").glob(f"offline-run-*-{run_id}"):
                shutil.rmtree(before)
        options = wandb.Settings(
            console="off",
            init_timeout=_START_SECONDS if is_online else 300.0,
            login_timeout=_START_SECONDS,
            finish_timeout=_FINISH_SECONDS,
            finish_timeout_raises=True,
            reinit="create_new",  # several evolutions are open at the same time
            x_disable_stats=True,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
        )
        self._run = wandb.init(
            mode="online" if is_online else "offline",
            dir=folder,
            entity=settings.wandb_entity,
            project=chosen(settings.wandb_project, "WANDB_PROJECT", PROJECT),
            group=chosen(settings.wandb_group, "WANDB_RUN_GROUP", _group(directory.path)),
            tags=settings.wandb_tags or None,
            job_type=chosen(
                settings.wandb_job_type, "WANDB_JOB_TYPE", config["resolved"]["job_type"]
            ),
            id=run_id,
            name=chosen(None, "WANDB_NAME", folder.name),
            config=config,
            allow_val_change=True,
            resume="allow" if is_online else None,
            settings=options,
        )
        self._last: dict[str, float] = {}
        """last index of each kind that the service has"""

    def log(self, records: Sequence[PlainDict]) -> None:
        """Hand over records; those that the service already has are skipped."""
        for record in records:
            kind, index = record["kind"], record[record["kind"]]
            if kind not in self._last:
                self._last[kind] = self._run.summary.get(f"{kind}/index", -1)
                self._run.define_metric(f"{kind}/index")
                self._run.define_metric(f"{kind}/*", step_metric=f"{kind}/index")
            if index > self._last[kind]:
                self._run.log({f"{kind}/index": index, **_numbers(record)})
                self._last[kind] = index

    def log_artifact(self, path: Path) -> None:
        import wandb

        title = re.sub(r"[^\w.-]", "_", f"{self._run.id}-{path.name}")
        artifact = wandb.Artifact(title, type=path.suffix.removeprefix(".") or "directory")
        add = artifact.add_dir if path.is_dir() else artifact.add_file
        add(str(path), policy="immutable")  # which avoids a copy outside of the run directory
        self._run.log_artifact(artifact)

    def finish(self, *, completed: bool) -> None:
        """Set the final status, and wait until everything has arrived."""
        self._run.finish(exit_code=0 if completed else 1)


class _Mlflow:
    """A run of MLflow, opened without the fluent API because that keeps global state."""

    def __init__(self, directory: RunDirectory, settings: "RecordConfig") -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Param
        except ImportError as error:
            raise ConfigError(f"{error}: pip install 'metaevo[mlflow]'") from error
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        uri = tracking_uri(settings.mlflow or "local")
        self._client: Any = MlflowClient(uri)
        about = flatten(_settings(directory))
        self._started = datetime.fromisoformat(about["environment.started"]).timestamp()
        project = settings.wandb_project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        if known := self._client.get_experiment_by_name(project):
            experiment = known.experiment_id
        else:
            where = None
            if uri.startswith("sqlite:///"):
                file = Path(uri.removeprefix("sqlite:///"))
                where = file.with_name(f"{file.stem}_artifacts").as_uri()
            experiment = self._client.create_experiment(project, artifact_location=where)
        tags = {
            RUN_ID: about["resolved.run_id"],
            "job_type": settings.wandb_job_type or about["resolved.job_type"],
            "run_directory": str(directory.path.absolute()),
            "mlflow.source.name": about.get("environment.command_line"),
            "mlflow.source.git.commit": about.get("environment.commit", "").rstrip("+"),
        }
        if found := self._client.search_runs([experiment], f"tags.`{RUN_ID}` = '{tags[RUN_ID]}'"):
            run = found[0]
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            run = self._client.create_run(
                experiment,
                start_time=int(self._started * 1000),
                tags={name: value for name, value in tags.items() if value is not None},
                run_name=directory.path.absolute().name,
            )
        self._id = str(run.info.run_id)
        sent = run.data.params  # parameters cannot change
        params = [Param(key, str(value)) for key, value in about.items() if key not in sent]
        self._client.log_batch(self._id, params=params)

    def log(self, records: Sequence[PlainDict]) -> None:
        """Log metrics; MLflow stores those with the same name, value, step and time only once."""
        from mlflow.entities import Metric

        found = []
        for record in records:
            time = int((self._started + record.get("seconds", 0.0)) * 1000)
            index = record[record["kind"]]
            found += [Metric(name, x, time, index) for name, x in _numbers(record).items()]
        self._client.log_batch(self._id, metrics=found)

    def log_artifact(self, path: Path) -> None:
        if path.is_dir():
            self._client.log_artifacts(self._id, str(path), path.name)
        else:
            self._client.log_artifact(self._id, str(path))

    def finish(self, *, completed: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if completed else "KILLED")


_Client = _Wandb | _Mlflow


def tracking_uri(text: str) -> str:
    """Return an MLflow tracking URI that does not depend on the working directory."""
    if text == "local":
        return f"sqlite:///{Path(LOCAL_DATABASE).absolute()}"
    if "://" not in text or re.split(r"[+:]", text)[0] not in _SCHEMES:
        raise ConfigError(
            f"mlflow = {text!r}: must be local (the database ./{LOCAL_DATABASE}), sqlite:///FILE, "
            "http://HOST:PORT or the URI of another database"
        )
    database, _, file = text.partition(":///")
    if database.partition("+")[0] == "sqlite" and file:
        return f"sqlite:///{Path(file).absolute()}"
    return text


class Trackers:
    """The services in the settings of a run; each is opened with the first record."""

    def __init__(self, directory: RunDirectory, settings: "RecordConfig") -> None:
        self._directory, self._settings = directory, settings
        self._open: dict[str, Any] = {}
        """by service: what opens or creates a run, or the client that has done so"""
        if settings.wandb_mode != "disabled":
            self._open[f"wandb ({settings.wandb_mode})"] = _Wandb
        if settings.mlflow:
            shown = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", tracking_uri(settings.mlflow))
            self._open[f"mlflow ({shown})"] = _Mlflow

    def log(self, record: PlainDict) -> None:
        """Hand over a record that metrics.jsonl already has."""
        self._each(lambda client: client.log([record]))

    def close(self) -> None:
        """Hand over the artifacts and the status, and close the run."""

        def finish(client: _Client) -> None:
            for path in (self._directory.path / name for name in ARTIFACTS):
                if path.exists():
                    client.log_artifact(path)
            client.finish(completed=is_finished(self._directory))

        self._each(finish)

    def _each(self, send: Callable[[_Client], None]) -> None:
        """Call the clients of all services; one that fails is not called again."""
        for service in list(self._open):
            try:
                send(self._client(service))
            except Exception as error:  # no exception of a client may reach the run
                del self._open[service]
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                message = f"warning: {service}: {reason}; the run continues without it"
                tqdm.write(message, file=sys.stderr)

    def _client(self, service: str) -> _Client:
        """Open the run at a service, and hand over the records until now."""
        client = self._open[service]
        if isinstance(client, type):
            for name, value in _ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            client = self._open[service] = client(self._directory, self._settings)
            client.log([record for _, record in self._directory.lines()])
        return client


def _group(path: Path) -> str | None:
    """Return the directory of a run with several evolutions, given it or one of them."""
    outer = path.parent if (path.parent / "config.yaml").exists() else path
    return str(outer) if evolutions_in(outer) else None


def _settings(directory: RunDirectory) -> PlainDict:
    """Return the settings of a run, and its environment: versions, devices, commit, command."""
    saved = directory.read_config()
    own = {"resolved": saved["resolved"], "environment": saved["environment"]}
    return {**saved["config"], **own}


def _numbers(record: PlainDict) -> dict[str, float]:
    """Return the numbers of a record as `kind/name`, without its index."""
    kind, named = record["kind"], flatten(record)
    for name in OF_AGENTS:
        agents = (record.get(name) or [])[:AGENTS]
        named |= {f"{name}.{at}": each for at, each in enumerate(agents)}
    return {
        f"{kind}/{name}": value
        for name, value in named.items()
        if name != kind and type(value) in (int, float)
    }
