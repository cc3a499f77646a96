"""One seed of a run: settings and recorded metrics, however it was read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.run_directory import numbers
from metaevo.statistics import FloatArray
from purerl.metrics import BETTER, Direction

EVALUATION = "evaluation"
"""Held-out scores; the metric of one variant is `evaluation:VARIANT`."""
VARIANT = "variant"
"""Config key of the variant that held-out scores belong to."""
MEAN = "mean"
"""Name of the mean over the agents of a training: `SEED/mean`; the agents are `SEED/INDEX`."""
AXES = {
    "steps": "environment steps",
    "generations": "generations",
    "seconds": "seconds",
}
"""Axes that curves can be aligned by, with their labels."""
SEED_KEYS = ("seed", "seeds", "random_seed", "run_seed")
"""Last parts of config keys that select the random seed."""
FITNESS = "fitness_of_mean", "fitness_mean", "best_value"
"""Default metrics of evolutions and sweeps; curves of them are drawn over generations."""
_DEFAULTS = (
    *FITNESS, "mean_return", "value", "episodic_return", "episode_return",
    "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean", "fitness",
)  # fmt: skip
"""Metrics that are compared by default, the first of which is used."""
_HIGHER = {"low", "high", "reward_per_step", EVALUATION, *FITNESS, "value",
           "fitness_best", "fitness_low", "fitness_high"}  # fmt: skip
_HIGHER_ELSEWHERE = re.compile(r"(^|_)(returns?|rewards?|fitness|score|success)$|^ep_rew_mean$")
"""Endings of metrics of other programs that are better if high."""
_BOOKKEEPING = "run.", "evolution.chunk_size", "evolution.num_devices", "evolution.block_size"
"""Prefixes of config keys without an effect on the result."""
_TASK_KEYS = (
    "task.env",
    "task.env_params",
    "env",
    "env_id",
    "env_name",
    "environment",
    "env_params",
)
"""Config keys that define the task. Scores on different tasks are never pooled."""
_ENV_PARAMS = "task.env_params."
_OF_EVOLUTION = "strategy.", "evolution.", "evaluation.", "run."
"""Prefixes of the settings of a user's problem that are not its own; those define the task."""
_POSITIONS = {
    "steps": (
        "frames", "global_step", "env_steps", "environment_steps", "total_timesteps", "timesteps",
        "total_steps", "_step",
    ),
    "generations": ("generation", "trial", "index", "epoch", "iteration", "_step"),
    "seconds": ("seconds", "_runtime"),
}  # fmt: skip
"""Columns that hold the positions on an axis, the first of which is used."""
_NOT_METRICS = ("kind", "index", "update", "generation", "trial", "frames", "seconds")


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
    """One seed of one run, or the mean over its agents. Seeds are compared by identity."""

    run: str
    """name of its run"""
    seed: str
    """name of the random seed; equal names in two runs are matched"""
    config: PlainDict
    """settings by dotted key"""
    axes: dict[str, FloatArray]
    """[records] positions by name in `AXES`; none for held-out scores"""
    metrics: dict[str, FloatArray]
    """[records] values by name, NaN where missing; of held-out scores [1]"""
    default: str | None = None
    """default metric"""

    @property
    def is_mean(self) -> bool:
        """Whether it holds means over the seeds of its run."""
        return self.seed.endswith(f"/{MEAN}")

    @cached_property
    def origin(self) -> tuple[object, ...]:
        """Random seed, task and settings, which all agents of a training share."""
        settings = tuple(sorted(self.settings.items()))
        return self.seed.rpartition("/")[0], self.task, settings

    @cached_property
    def task(self) -> str:
        """Environment and its parameters, or a problem and its fields."""
        if "problem" in self.config:
            return " ".join(f"{key}={self.config[key]}" for key in sorted(self.config)
                            if not key.startswith(_OF_EVOLUTION))  # fmt: skip
        parts = [self.config[key] for key in _TASK_KEYS if self.config.get(key) not in (None, {})]
        parts += [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in sorted(self.config.items())
            if key.startswith(_ENV_PARAMS) and value != {}
        ]
        return " ".join(map(str, parts))

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings as text, without the seed, bookkeeping and the task."""
        ignored: tuple[str, ...] = (*_BOOKKEEPING, _ENV_PARAMS)
        if not any(key == "evolve" or key.startswith("sweep.") for key in self.config):
            ignored += ("fitness.",)  # has no effect in a training
        return {
            key: _text(value)
            for key, value in self.config.items()
            if key.rpartition(".")[2] not in SEED_KEYS
            and not key.startswith(ignored)
            and key not in _TASK_KEYS
            and ("problem" not in self.config or key.startswith(_OF_EVOLUTION))
        }


def _text(value: Any) -> str:
    """Format a value; 1 and 1.0 are equal."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value)


def seed_name(config: PlainMapping, otherwise: str) -> str:
    """Return the name of a seed, which is the same in a run directory and in a tracker."""
    own = ["run.seed"] if "run.seed" in config else sorted(config)
    seeds = [config[key] for key in own if key.rpartition(".")[2] == "seed"]
    return "/".join(map(str, seeds)) if seeds else otherwise


def seed_run(
    run: str, seed: str, config: PlainDict, rows: Sequence[PlainMapping], agents: int = 1
) -> SeedRun:
    """Return a seed from its records; without any metrics if it has no numbers yet.

    Args:
        run: name of the run.
        seed: name of the seed.
        config: settings by dotted key.
        rows: the records; keys that begin with _ are wandb's.
        agents: number of agents whose steps the records count together.
    """
    found = {key: numbers(row.get(key) for row in rows) for key in sorted(set().union(*rows))}
    columns = {key: values for key, values in found.items() if np.isfinite(values).any()}
    axes = {
        axis: next(columns[each] for each in names if each in columns)
        for axis, names in _POSITIONS.items()
        if columns.keys() & set(names)
    }
    if "steps" in axes:
        axes["steps"] = axes["steps"] / agents
    metrics = {
        key: values
        for key, values in columns.items()
        if axes and key not in _NOT_METRICS and not key.startswith("_")
    }
    default = next((one for one in _DEFAULTS if one in metrics), None)
    return SeedRun(run, seed, config, axes, metrics, default)
