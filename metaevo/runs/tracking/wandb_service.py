"""Weights & Biases: online, or as files that `wandb sync` sends."""

import os
import re
import shutil
from pathlib import Path
from typing import Any, Literal

from metaevo.runs.tracking.service import About, PermanentError, Remote, Row, Status
from metaevo.runs.tracking.state import State

_SECONDS_TO_START = 20.0
_SECONDS_TO_FINISH = 300.0  # the run itself waits for much less


class WandbService:
    """Opens wandb runs inside the run directory."""

    def __init__(self, mode: Literal["offline", "online"]) -> None:
        self._mode = mode
        try:
            import wandb
        except ImportError as error:
            raise PermanentError(f"the package is missing: {error}") from error
        self._wandb = wandb

    def open(self, about: About, state: State, parent: str | None) -> Remote:
        """Open a run; a later part of an offline run is a directory of its own."""
        del parent  # runs belong together by their group
        if os.path.lexists(about.folder / "wandb" / "settings"):  # could name another server
            raise PermanentError("the run directory has wandb/settings, which is none of its files")
        wandb = self._wandb
        if self._mode == "offline":
            _remove_fragments(about, state.segments)
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=_SECONDS_TO_START,
            login_timeout=_SECONDS_TO_START,
            finish_timeout=_SECONDS_TO_FINISH,
            finish_timeout_raises=True,
            reinit="create_new",  # nested runs are open beside theirs
            # It would describe the mirror's process.
            x_disable_stats=True,
            x_disable_meta=True,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
        )
        try:
            run = wandb.init(
                mode=self._mode,
                dir=about.folder,
                project=about.project,
                id=about.id,
                name=about.name,
                group=about.group,
                job_type=about.job_type,
                config={**about.config, "environment": about.environment},
                allow_val_change=True,
                resume="allow" if self._mode == "online" else None,
                settings=settings,
            )
        except (wandb.errors.UsageError, wandb.errors.AuthenticationError) as error:
            raise PermanentError(str(error)) from error
        return WandbRun(run, online=self._mode == "online")


class WandbRun:
    """A wandb run, open. What it took has arrived when it has finished."""

    confirms = False

    def __init__(self, run: Any, *, online: bool) -> None:
        self._run = run
        self._kinds: set[str] = set()
        self.id = str(run.id)
        # The step that the server goes on with is the number of rows, as each is given its number.
        self.rows = max(run.step, run.starting_step) if online else None
        self.segment = None if online else Path(run.dir).parent.name

    def log(self, rows: list[Row], first: int) -> None:
        """Log rows as `kind/name`, with `kind/index` as their axis."""
        for number, row in enumerate(rows, start=first):
            if row.kind not in self._kinds:
                self._kinds.add(row.kind)
                self._run.define_metric(f"{row.kind}/index")
                self._run.define_metric(f"{row.kind}/*", step_metric=f"{row.kind}/index")
            values = {f"{row.kind}/{key}": value for key, value in row.values.items()}
            self._run.log({f"{row.kind}/index": row.step, **values}, step=number)

    def log_artifact(self, path: Path, name: str) -> None:
        """Store a file or a directory as an artifact of the run."""
        import wandb

        title = re.sub(r"[^\w.-]", "_", f"{self.id}-{Path(name).name}")
        artifact = wandb.Artifact(title, type=path.suffix.removeprefix(".") or "directory")
        # "immutable" spares a copy outside of the run directory.
        if path.is_dir():
            artifact.add_dir(str(path), policy="immutable")
        else:
            artifact.add_file(str(path), policy="immutable")
        self._run.log_artifact(artifact)

    def finish(self, status: Status) -> None:
        """End the wandb run."""
        self._run.finish(exit_code=0 if status == "finished" else 1)


def _remove_fragments(about: About, complete: list[str]) -> None:
    """Remove what a killed process left of an offline run: its last rows are lost.

    Every part that was finished is kept; what the fragment held is written again.
    """
    for path in (about.folder / "wandb").glob(f"offline-run-*-{about.id}"):
        if path.name not in complete:
            shutil.rmtree(path)
