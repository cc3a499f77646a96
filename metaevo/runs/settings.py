"""The settings that every run has, and the sizes of a quick look."""

import copy
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from metaevo.config import ConfigError, show, to_dict
from metaevo.config.checks import LIMIT
from metaevo.config.plain import PlainDict

MAX_SEED = 2**32 - 1
LOCAL_DATABASE = "mlruns.db"
"""MLflow's database `local`, in the working directory"""
WIDER = ("run.seed",)
"""settings that are not sent to devices"""
SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""limits of the nonzero normal numbers in float32"""
_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks")


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


def without_env_params(overrides: PlainDict, settings: PlainDict) -> PlainDict:
    """Return the defaults, without `task.env_params` if the overrides name an environment."""
    task = overrides.get("task")
    if isinstance(task, dict) and "env" in task:
        return {**settings, "task": {**settings.get("task", {}), "env_params": {}}}
    return settings


# --- A quick look (`--quick`), which only shows that everything works -----------------------------

NOTE = (
    "Sizes are tiny (--quick), to see that everything works and what comes out. The numbers mean "
    "nothing."
)
STEPS, UPDATES = 2560, 4
"""environment steps of an agent, and the least updates that they are"""
TASKS = 2
MOST = {
    "": {"seeds": 2, "tasks_per_generation": TASKS},
    "evaluation": {
        "episodes": 2, "finalists": 2, "gymnasium": 1, "screening_seeds": 2, "seeds": 8,
        "selection_seeds": 2, "settings": 1, "tuning_seeds": 2,
    },
    "evolution": {
        "generations": 4, "seeds_per_candidate": 2, "validation_every": 2, "validation_seeds": 8,
    },
    "run": {"evolution_seeds": 2},
    "strategy": {"population_size": 8},
    "sweep": {"batch": 4, "confirm_seeds": 4, "seeds": 2, "trials": 4},
}  # fmt: skip
"""largest values, by section"""


def quickened(settings: PlainDict) -> PlainDict:
    """Return settings, as plain data, reduced to a run of seconds and marked as quick."""
    small = copy.deepcopy(settings)
    for section, sizes in MOST.items():
        values = small.get(section, {}) if section else small
        for name, most in sizes.items():
            if values.get(name) is not None:
                values[name] = min(values[name], most)
    unseen = small.get("evaluation", {}).get("unseen")
    for tasks, number in ((small.get("tasks") or {}, TASKS), (unseen or {}, 1)):
        for name in list(tasks)[number:]:
            del tasks[name]
        for task in tasks.values():
            task["train"]["total_timesteps"] = _few_steps({**small["train"], **task["train"]})
            task["sample"].pop("updates", None)  # a length that is drawn
    if "train" in small:
        small["train"]["total_timesteps"] = _few_steps(small["train"])
    small["run"]["quick"] = True
    return small


def _few_steps(train: PlainDict) -> int:
    """Return the environment steps of a few updates."""
    update = train["num_steps"] * train.get("num_envs", 1)
    few = max(UPDATES * update, STEPS, 2 * train.get("learning_starts", 0))
    return int(min(train["total_timesteps"], few))


def is_quick(settings: PlainDict) -> bool:
    """Whether settings, as plain data, are marked as quick."""
    return bool(settings.get("run", {}).get("quick"))


def mark(settings: PlainDict) -> PlainDict:
    """Return the entries that mark the evaluation.json of a quick look."""
    return {"quick": True, "note": NOTE} if is_quick(settings) else {}
