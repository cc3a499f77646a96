"""Mirrors of a run's metrics on tracking servers. They may fail; the run goes on without them."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

_SECONDS_TO_START = 20.0
_SECONDS_TO_FINISH = 60.0


class Tracker(Protocol):
    """Where metrics and files of a run are mirrored to; none of its methods ever raises."""

    def log(self, record: dict[str, Any]) -> None:
        """Mirror a record of metrics.jsonl: its numbers against the index of its kind."""

    def log_artifact(self, path: Path) -> None:
        """Mirror a file or a directory."""

    def finish(self) -> None:
        """Send what is left."""


def start_wandb(
    mode: Literal["disabled", "offline", "online"],
    *,
    project: str,
    run_directory: Path,
    name: str,
    group: str | None = None,
    job_type: str | None = None,
    config: dict[str, Any] | None = None,
    tags: Sequence[str] = (),
) -> Tracker:
    """A wandb run inside the run directory; offline if there is no way to be online.

    Whatever fails is said in one line on stderr, and tracking ends there.
    """
    if mode == "disabled":
        return WandbTracker(None)
    for each in (mode, "offline") if mode == "online" else (mode,):
        try:
            import wandb

            settings = wandb.Settings(
                silent=True,
                console="off",
                init_timeout=_SECONDS_TO_START,
                login_timeout=_SECONDS_TO_START,
                finish_timeout=_SECONDS_TO_FINISH,
            )
            run = wandb.init(
                mode=each,
                dir=run_directory,
                project=project,
                name=name,
                group=group,
                job_type=job_type,
                config=config,
                tags=list(tags),
                settings=settings,
            )
            return WandbTracker(run)
        except Exception as error:
            otherwise = "trying offline" if each == "online" else "tracking is off"
            _warn(f"wandb did not start {each}, {otherwise}", error)
    return WandbTracker(None)


class WandbTracker:
    """Logs to a wandb run until the first failure; does nothing afterwards, or without a run."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._kinds: set[str] = set()

    def log(self, record: dict[str, Any]) -> None:
        """Log the numbers of a record as `kind/name`, with `kind/index` as their axis."""

        def send(run: Any) -> None:
            kind = record["kind"]
            if kind not in self._kinds:
                self._kinds.add(kind)
                run.define_metric(f"{kind}/index")
                run.define_metric(f"{kind}/*", step_metric=f"{kind}/index")
            numbers = {
                "index" if key == kind else key: np.asarray(value).item()
                for key, value in record.items()
                if _is_number(value)
            }
            run.log({f"{kind}/{key}": value for key, value in numbers.items()})

        self._attempt("log", send)

    def log_artifact(self, path: Path) -> None:
        """Store a file or a directory as an artifact of the run."""

        def send(run: Any) -> None:
            import wandb

            name = re.sub(r"[^\w.-]", "_", f"{run.id}-{path.name}")
            artifact = wandb.Artifact(name, type=path.suffix.removeprefix(".") or "directory")
            # "immutable" spares a copy outside of the run directory.
            if path.is_dir():
                artifact.add_dir(str(path), policy="immutable")
            else:
                artifact.add_file(str(path), policy="immutable")
            run.log_artifact(artifact)

        self._attempt("store an artifact", send)

    def finish(self) -> None:
        """End the wandb run."""
        self._attempt("finish", lambda run: run.finish())
        self._run = None

    def _attempt(self, what: str, send: Callable[[Any], None]) -> None:
        if self._run is None:
            return
        try:
            send(self._run)
        except Exception as error:
            self._run = None
            _warn(f"wandb could not {what}, tracking is off", error)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | str) or np.ndim(value):
        return False
    return bool(np.issubdtype(np.asarray(value).dtype, np.number))


def _warn(message: str, error: Exception) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"warning: {message}: {reason}", file=sys.stderr)
