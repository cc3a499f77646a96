"""Weights & Biases: online, or as files inside the run directory."""

import os
import re
import shutil
from pathlib import Path

import wandb

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict
from metaevo.runs.tracking.remote import About, files_in, numbers_of

_START_SECONDS = 20.0
_FINISH_SECONDS = 300.0  # `metaevo sync` waits; a run gives up after `run.track_wait`


class WandbRun:
    """A wandb run: its client passes data to a process that sends it in the background."""

    def __init__(self, about: About, *, online: bool) -> None:
        """Open the run with this id, or create it."""
        if os.path.lexists(about.folder / "wandb" / "settings"):  # it could name another server
            raise ConfigError(f"{about.folder} has wandb/settings, which no run writes")
        os.environ.setdefault("WANDB_SILENT", "true")
        if online and not wandb.login(prompt=False):
            raise ConfigError("no API key: run `wandb login` first")
        if not online:  # the records are written again, all into one folder
            for folder in (about.folder / "wandb").glob(f"offline-run-*-{about.id}"):
                shutil.rmtree(folder)
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=_START_SECONDS,
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
            mode="online" if online else "offline",
            dir=about.folder,
            project=about.project,
            id=about.id,
            name=about.name,
            group=about.folder.name,
            job_type=about.job_type,
            config={**about.config, "environment": about.environment},
            allow_val_change=True,
            resume="allow" if online else None,
            settings=settings,
        )
        self._last: dict[str, float] = {}
        """last index of each kind that the server has"""
        self.id = str(self._run.id)

    def log(self, records: list[PlainDict]) -> None:
        """Log new records as `kind/name`, with `kind/index` as their axis."""
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
        """Store a file or a folder as an artifact of the run."""
        title = re.sub(r"[^\w.-]", "_", f"{self.id}-{path.name}")
        artifact = wandb.Artifact(title, type=path.suffix.removeprefix(".") or "directory")
        for file in files_in(path):
            name = str(file.relative_to(path)) if path.is_dir() else path.name
            # "immutable" avoids a copy outside of the run directory.
            artifact.add_file(str(file), name=name, policy="immutable")
        self._run.log_artifact(artifact)

    def finish(self, *, completed: bool) -> None:
        """End the run and wait until everything has arrived."""
        self._run.finish(exit_code=0 if completed else 1)
