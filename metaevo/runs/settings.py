"""The settings that every run has, whatever it does."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval, Le

from metaevo.runs.tracking.destination import tracking_uri

MAX_SEED = 2**32 - 1
LATER = "later"
"""In the metadata of a setting's field: whether runs of earlier versions may lack it."""


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

    def __post_init__(self) -> None:
        """Refuse what is no tracking URI."""
        if self.mlflow:
            tracking_uri(self.mlflow)
