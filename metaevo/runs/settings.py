"""The settings that every run has, and the sizes of a quick look."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from metaevo.config import show, to_dict
from metaevo.config.checks import LIMIT
from metaevo.config.plain import PlainDict

MAX_SEED = 2**32 - 1
WIDER = ("run.seed",)
"""settings that are not sent to devices"""
SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""limits of the nonzero normal numbers in float32"""


@dataclass(frozen=True)
class RecordConfig:
    """Randomness, checkpoints and tracking of a run."""

    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0
    """all randomness of the run comes from it"""
    keep_checkpoints: Annotated[int, Gt(0)] = 3
    """number of the latest checkpoints to keep"""
    wandb: Literal["disabled", "offline", "online"] | None = None
    """log metrics and figures to Weights & Biases; null: WANDB_MODE, or disabled"""
    wandb_entity: str | None = None
    """the user or team there; null: WANDB_ENTITY, or your own"""
    wandb_project: str | None = None
    """the project there, and the experiment in MLflow; null: WANDB_PROJECT, or metaevo"""
    wandb_group: str | None = None
    """null: WANDB_RUN_GROUP, or for several evolutions of a run its directory"""
    wandb_tags: tuple[str, ...] = ()
    """empty: WANDB_TAGS"""
    wandb_job_type: str | None = None
    """null: WANDB_JOB_TYPE, or train, evolution, sweep"""
    mlflow: str | None = None
    """log them to MLflow: a tracking URI, or local for the database ./mlruns.db"""
    quick: bool = False
    """tiny sizes, to see that a run works; its numbers mean nothing; set by --quick"""

    def __post_init__(self) -> None:
        """Check the tracking URI."""
        if self.mlflow:
            from metaevo.runs.trackers import tracking_uri

            tracking_uri(self.mlflow)

    @property
    def wandb_mode(self) -> str:
        """Mode of wandb: disabled, offline or online."""
        mode = self.wandb or os.environ.get("WANDB_MODE")
        return mode if mode in ("offline", "online") else "disabled"

    @property
    def is_tracked(self) -> bool:
        """Whether a service gets the records."""
        return self.wandb_mode != "disabled" or bool(self.mlflow)


class HasRun:
    """Base of the dataclasses of settings with the section `run`."""

    __dataclass_fields__: ClassVar[PlainDict]
    run: RecordConfig

    def __post_init__(self) -> None:
        """Refuse numbers that devices cannot represent.

        Raises:
            ValueError: naming the first such number.
        """
        for key, value in _leaves("", to_dict(self)):
            if allowed := _allowed(key, value):
                raise ValueError(f"{key} = {show(value)}: must be {allowed}")


def _allowed(key: str, value: Any) -> str:
    """Return what a number must be for devices; empty if it is."""
    if isinstance(value, int):
        is_small = abs(value) <= LIMIT or key in WIDER
        return "" if is_small else f"at most {LIMIT} in size"
    if not isinstance(value, float) or value == 0 or math.isinf(value):
        return ""
    is_normal = SMALLEST <= abs(value) <= LARGEST  # NaN is not
    return "" if is_normal else f"0 or {SMALLEST:.3g} to {LARGEST:.3g} in size (float32)"


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in dicts and lists with the dotted keys that lead to them."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{key}.{name}".removeprefix("."), each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(key, each)
    else:
        yield key, value


def without_env_params(overrides: PlainDict, settings: PlainDict) -> PlainDict:
    """Return the defaults, without `task.env_params` if the overrides name an environment."""
    task = overrides.get("task")
    if isinstance(task, dict) and "env" in task:
        return {**settings, "task": {**settings.get("task", {}), "env_params": {}}}
    return settings


# --- A quick look (`--quick`) ---------------------------------------------------------------------

NOTE = (
    "Sizes are tiny (--quick), to see that everything works and what comes out. The numbers mean "
    "nothing."
)


def is_quick(settings: PlainDict) -> bool:
    """Whether settings, as plain data, are marked as quick."""
    return bool(settings.get("run", {}).get("quick"))


def mark(settings: PlainDict) -> PlainDict:
    """Return the entries that mark the evaluation.json of a quick look."""
    return {"quick": True, "note": NOTE} if is_quick(settings) else {}
