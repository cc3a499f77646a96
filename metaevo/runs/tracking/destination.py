"""Destinations of a run: a service and an address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metaevo.config import ConfigError

LOCAL_DATABASE = "mlruns.db"
"""MLflow's database `local`, in the working directory"""
_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")


@dataclass(frozen=True)
class Destination:
    """A service and an address there."""

    service: Literal["wandb", "mlflow"]
    where: str
    """`offline` or `online` for wandb, a tracking URI for MLflow"""
    project: str
    """wandb's project, MLflow's experiment"""

    @property
    def needs_confirmation(self) -> bool:
        """Whether a run directory alone must not choose it: a server, or another database."""
        if self.service == "wandb":
            return self.where == "online"
        return self.where != tracking_uri("local")

    @property
    def label(self) -> str:
        """Name for messages, without the password that a URI may contain."""
        where = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", self.where)
        return f"{self.service} ({where})"


def destinations(settings: Mapping[str, str | None]) -> list[Destination]:
    """Return the destinations in the section `run` of the settings; raises as `tracking_uri`."""
    project = settings.get("wandb_project") or "metaevo"
    found = []
    if (mode := settings.get("wandb")) in ("offline", "online"):
        found.append(Destination("wandb", mode, project))
    if uri := settings.get("mlflow"):
        found.append(Destination("mlflow", tracking_uri(uri), project))
    return found


def check_confirmed(path: Path, settings: Mapping[str, str | None]) -> None:
    """Raise `ConfigError` for a server that only a run directory names, which may be untrusted.

    `settings` are its section `run`, without the keys that the user has given.
    """
    for each in destinations(settings):
        if each.needs_confirmation:
            raise ConfigError(
                f"{path}: its own settings, not this command line, send it to {each.label}, "
                f"project {each.project!r}; confirm that with --confirm-destination, or name a "
                f"destination: --{each.service}"
            )


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
