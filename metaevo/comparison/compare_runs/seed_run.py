"""One seed of a run: settings and recorded metrics; and which values of a metric are better."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from metaevo.config.plain import PlainDict
from metaevo.statistics import FloatArray
from purerl.metrics import BETTER, Direction

EVALUATION = "evaluation"
"""Held-out scores; `evaluation:VARIANT` is the metric of one variant."""
_HIGHER = {
    "low", "high", "reward_per_step", "value", "best_value", EVALUATION, "fitness_mean",
    "fitness_best", "fitness_of_mean", "fitness_low", "fitness_high",
}  # fmt: skip
_HIGHER_ELSEWHERE = re.compile(r"(^|_)(returns?|rewards?|fitness|score|success)$|^ep_rew_mean$")
"""Endings of metrics of other programs that are better if high."""

AXES = {
    "steps": "environment steps",
    "generations": "generations",
    "seconds": "seconds",
}
"""Axes that curves can be aligned by, with their labels."""
SEED_KEYS = ("seed", "seeds", "random_seed", "run_seed")
"""Last parts of config keys that select the random seed."""
BOOKKEEPING = (
    "run.", "resolved.", "evolution.chunk_size", "evolution.num_devices",
    "evolution.block_seconds", "environment.started", "environment.command_line",
    "environment.git", "environment.devices", "environment.python", "environment.jax",
    "environment.flax", "environment.optax", "environment.evosax", "environment.gymnax",
    "environment.numpy",
)  # fmt: skip
"""Prefixes of config keys without an effect on the result."""
RUN_ID, AGENT = "resolved.run_id", "agent"
"""Keys that our trackers write: the id of the run, and the index of the agent."""
TASK_KEYS = (
    "task.env", "task.env_params", "env", "env_id", "env_name", "environment", "env_params",
    "study", "role", "game.payoffs", "game.opponent_payoffs", "game.discount",
)  # fmt: skip
"""Config keys that define the task. Scores on different tasks are never pooled."""
_ENV_PARAMS = "task.env_params."


def direction(metric: str) -> Direction | None:
    """Return whether higher or lower values of a metric are better; None if unknown."""
    name = metric.rpartition("/")[2].partition(":")[0]
    if name == "diverged":
        return "lower"
    if name in _HIGHER or _HIGHER_ELSEWHERE.search(name):
        return "higher"
    return BETTER.get(name)


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One seed of one run. Seeds are compared by identity."""

    run: str
    """name of its run"""
    seed: str
    """name of the random seed; equal names in two runs are matched"""
    config: PlainDict
    """settings by dotted key"""
    axes: dict[str, FloatArray]
    """[records] positions by name in `AXES`"""
    metrics: dict[str, FloatArray]
    """[records] values by name, NaN where missing; of held-out scores [1]"""
    default: str | None = None
    """default metric"""

    @property
    def is_mean(self) -> bool:
        """Whether it holds means over the seeds of its run."""
        return self.seed.endswith("/mean")

    @property
    def task(self) -> str:
        """Environment, parameters, study and game."""
        parts = [self.config[key] for key in TASK_KEYS if self.config.get(key) not in (None, {})]
        parts += [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in sorted(self.config.items())
            if key.startswith(_ENV_PARAMS) and value != {}
        ]
        return " ".join(str(part) for part in parts)

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings as text, without the seed, bookkeeping and the task."""
        ignored: tuple[str, ...] = (*BOOKKEEPING, _ENV_PARAMS)
        if not any(key == "evolve" or key.startswith("sweep.") for key in self.config):
            ignored += ("fitness.",)  # has no effect in a training
        return {
            key: _text(value)
            for key, value in self.config.items()
            if key.rpartition(".")[2] not in SEED_KEYS
            and not key.startswith(ignored)
            and key not in TASK_KEYS
            and not (key == AGENT and RUN_ID in self.config)
        }


def _text(value: Any) -> str:
    """Format a value; 1 and 1.0 are equal."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value)


@dataclass(frozen=True)
class Source:
    """A run with its seeds and its progress."""

    name: str
    kind: str
    """run directory, wandb, wandb offline, or mlflow"""
    seeds: list[SeedRun]
    state: str
    """finished, still going on, stopped, failed, ..."""
    progress: float | None = None
    """in [0, 1], if known"""
    notes: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The state, with the progress of an unfinished run."""
        if self.complete or self.progress is None:
            return self.state
        return f"{self.state}: {self.progress:.0%}"

    @property
    def complete(self) -> bool:
        """Whether the run is finished."""
        return self.state == "finished"
