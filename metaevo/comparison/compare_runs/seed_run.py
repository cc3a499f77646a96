"""The common form of all runs: curves, settings and scores of one seed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

AXES = {
    "steps": "environment steps",
    "generations": "generations",
    "seconds": "seconds",
}
"""What curves can be aligned by, and how a figure names it."""
SEED_KEYS = ("seed", "seeds", "random_seed", "run_seed")
"""Last parts of config keys that only choose the random numbers of a run."""
BOOKKEEPING = (
    "run.wandb", "run.checkpoint", "run.keep_checkpoints", "run.block_seconds", "run.chunk_size",
    "run.num_devices", "run.log_every", "run.track", "run.evolution_seeds", "evolution.chunk_size",
    "evolution.num_devices", "evolution.block_seconds", "run.mlflow", "resolved.",
    "environment.started", "environment.command_line", "environment.git", "environment.devices",
    "environment.python", "environment.jax", "environment.flax", "environment.optax",
    "environment.evosax", "environment.gymnax", "environment.numpy",
)  # fmt: skip
"""Beginnings of config keys that change how a run is executed and recorded, but not its result."""
RUN_ID, AGENT = "resolved.run_id", "agent"
"""Keys of our own trackers: which run a mirror is of, and which of its agents."""
TASK_KEYS = (
    "task.env",
    "task.env_params",
    "env",
    "env_id",
    "env_name",
    "environment",
    "env_params",
    "study",
    "role",
    "game.payoffs",
    "game.opponent_payoffs",
    "game.discount",
)
"""Config keys that define the task: scores on different tasks are never pooled."""


@dataclass(frozen=True)
class SeedRun:
    """One seed of one run."""

    run: str
    """name of the run that it belongs to, as the user gave it"""
    seed: str
    """which random numbers it had; seeds of other runs with the same name match it"""
    config: dict[str, Any]
    """its settings under dotted keys"""
    axes: dict[str, FloatArray]
    """where its records lie, by the names of AXES: [records] each"""
    metrics: dict[str, FloatArray]
    """recorded metrics by name: [records] each, NaN where missing"""
    default: str | None = None
    """the metric that it is judged by if none is named"""
    scores: dict[str, float] = field(default_factory=dict)
    """of evaluation.json, by the name of the variant"""
    has_own_seed: bool = True
    """whether `seed` is known, so that equal ones of two runs match"""

    @property
    def is_mean(self) -> bool:
        """Whether it holds means over the seeds of its run."""
        return self.seed.endswith("/mean")

    @property
    def task(self) -> str:
        """The task that it was trained on."""
        parts = [self.config[key] for key in TASK_KEYS if self.config.get(key) not in (None, {})]
        parts += [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in sorted(self.config.items())
            if key.startswith("task.env_params.") and value != {}
        ]
        return " ".join(str(part) for part in parts)


def settings_of(seed: SeedRun) -> dict[str, str]:
    """Return the settings that a group shares as text, without seeds, bookkeeping and the task."""
    searches = any(key == "evolve" or key.startswith("sweep.") for key in seed.config)
    # A training's fitness only judges it.
    bookkeeping = BOOKKEEPING if searches else (*BOOKKEEPING, "fitness.")
    return {
        key: _text(value)
        for key, value in seed.config.items()
        if key.rpartition(".")[2] not in SEED_KEYS
        and not key.startswith(bookkeeping)
        and key not in TASK_KEYS
        and not key.startswith("task.env_params.")
        and not (key == AGENT and RUN_ID in seed.config)
    }


def _text(value: Any) -> str:
    """1e-3 and 0.001, 1 and 1.0 are the same setting."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value)


@dataclass(frozen=True)
class Source:
    """A run with its seeds, and how far it is."""

    name: str
    kind: str
    """where it was read from: run directory, wandb, wandb offline, mlflow"""
    seeds: list[SeedRun]
    state: str
    """finished, still going on, stopped, failed, ..."""
    progress: float | None = None
    """finished share of the run, if known"""
    notes: list[str] = field(default_factory=list)
    """remarks for the comparison"""
    repeats: int = 0
    """seeds that were left out because another run has them too"""

    @property
    def status(self) -> str:
        """The state in words."""
        if self.state == "finished" or self.progress is None:
            return self.state
        return f"{self.state}: {self.progress:.0%}"

    @property
    def complete(self) -> bool:
        """Whether the run is finished."""
        return self.state == "finished"


def column(values: ArrayLike | list[Any]) -> FloatArray:
    """Return numbers of records; NaN for missing values and other types."""
    if isinstance(values, list):
        values = [_number(value) for value in values]
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return np.nan
    return float(value)
