"""The settings that every run has."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

from annotated_types import Ge, Gt, Interval, Le

from metaevo.runs.tracking.destination import tracking_uri

MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class RecordConfig:
    """Randomness, checkpoints and tracking: what every run has."""

    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0
    """all randomness of the run comes from it"""
    keep_checkpoints: Annotated[int, Gt(0)] = 3
    """how many of the last ones are kept"""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """mirror metrics and figures to Weights & Biases"""
    wandb_project: str = "metaevo"
    """the project there; the experiment in MLflow"""
    mlflow: str | None = None
    """mirror them to MLflow: a tracking URI, or local for the database ./mlruns.db"""
    track_seeds: Annotated[int, Ge(0)] = 8
    """agents of a training, the first ones, whose learning curves are mirrored singly"""
    track_wait: Annotated[float, Interval(ge=0, le=86400)] = 60.0
    """seconds that a run waits at its end, at most, for what is still to be sent"""
    quick: bool = False
    """marks a quick look, whose sizes are tiny and whose numbers mean nothing: set by --quick"""

    def __post_init__(self) -> None:
        """Refuse what is no tracking URI."""
        if self.mlflow:
            tracking_uri(self.mlflow)


class HasRun(Protocol):
    """A dataclass of settings with the section `run`: what the lifecycle of a run knows of them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def run(self) -> RecordConfig:
        """Randomness, checkpoints and tracking."""
