"""Where a run is mirrored to."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metaevo.config import ConfigError

LOCAL_DATABASE = "mlruns.db"
"""MLflow's database `local`, in the directory that a script is started from"""
_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")


@dataclass(frozen=True)
class Destination:
    """A service, and where there."""

    service: Literal["wandb", "mlflow"]
    where: str
    """`offline` or `online` for wandb, a tracking URI for MLflow"""
    project: str
    """wandb's project, MLflow's experiment"""

    @property
    def key(self) -> str:
        """Its identity among destinations; without the password that a URI may hold."""
        return f"{self.service}:{_without_password(self.where)}#{self.project}"

    @property
    def needs_confirmation(self) -> bool:
        """Whether a run directory alone may not choose it: a server, or some other database."""
        if self.service == "wandb":
            return self.where == "online"
        return self.where != tracking_uri("local")

    @property
    def label(self) -> str:
        """The name for messages."""
        return f"{self.service} ({_without_password(self.where)})"


def destinations(wandb: str, mlflow: str | None, project: str) -> list[Destination]:
    """Return where settings send a run to.

    Args:
        wandb: `disabled`, `offline` or `online`.
        mlflow: a tracking URI, `local`, or nothing.
        project: of both.

    Raises:
        ConfigError: if `mlflow` is no tracking URI.
    """
    found = []
    if wandb in ("offline", "online"):
        found.append(Destination("wandb", wandb, project))
    if mlflow:
        found.append(Destination("mlflow", tracking_uri(mlflow), project))
    return found


def configured(config: dict[str, Any]) -> list[Destination]:
    """Return where the saved settings of a run send it to.

    Raises:
        ConfigError: as `destinations` does.
    """
    run = config.get("run", {})
    return destinations(
        run.get("wandb", "disabled"), run.get("mlflow"), run.get("wandb_project", "metaevo")
    )


def check_own(path: Path, settings: dict[str, Any]) -> None:
    """Refuse what only a run directory, which may be somebody else's, says of where it is sent.

    Args:
        path: the run directory.
        settings: its section `run`, without what the user has named.

    Raises:
        ConfigError: naming the destination and the ways to confirm it.
    """
    for each in configured({"run": settings}):
        if each.needs_confirmation:
            raise ConfigError(
                f"{path}: its own settings, not this command line, send it to {each.label}, "
                f"project {each.project!r}; confirm that with --confirm-destination, or name a "
                f"destination: --{each.service}"
            )


def tracking_uri(text: str) -> str:
    """Return an MLflow tracking URI that means the same from every working directory.

    Raises:
        ConfigError: if it is none.
    """
    if text == "local":
        return f"sqlite:///{Path(LOCAL_DATABASE).absolute()}"
    scheme = text.partition("://")[0].partition("+")[0]
    if "://" not in text or scheme not in _SCHEMES:
        raise ConfigError(
            f"mlflow = {text!r}: is no tracking URI; allowed: local (the database "
            f"./{LOCAL_DATABASE}), sqlite:///FILE, http://HOST:PORT and those of other databases"
        )
    if (file := sqlite_file(text)) is not None:
        return f"sqlite:///{file.absolute()}"
    return text


def sqlite_file(uri: str) -> Path | None:
    """Return the file of a sqlite URI."""
    head, _, file = uri.partition(":///")
    return Path(file) if head.partition("+")[0] == "sqlite" and file else None


def _without_password(uri: str) -> str:
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", uri)
