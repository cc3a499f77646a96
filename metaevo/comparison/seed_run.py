"""One seed of a run: settings and recorded metrics; and which values of a metric are better."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metaevo.config import flatten
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.run_directory import numbers
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
    "evolution.block_size", "environment.started", "environment.command_line",
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
_KINDS = ("update", "generation", "trial", "evaluation")
_SOURCES = {
    "steps": (
        "frames", "global_step", "env_steps", "environment_steps", "total_timesteps", "timesteps",
        "total_steps", "_step",
    ),
    "generations": ("generation", "trial", "index", "epoch", "iteration", "_step"),
    "seconds": ("seconds", "_runtime", "_timestamp"),
}  # fmt: skip
"""Columns that hold the positions on an axis, the first of which is used."""
_DEFAULTS = (
    "fitness_of_mean", "fitness_mean", "best_value", "mean_return", "value", "episodic_return",
    "episode_return", "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean",
    "fitness",
)  # fmt: skip
"""Metrics that are compared by default, the first of which is used."""
_NOT_METRICS = ("index", "update", "generation", "trial", "frames", "seconds")


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
    """A run with its seeds."""

    name: str
    seeds: list[SeedRun]
    complete: bool
    """whether the run is finished"""
    notes: list[str] = field(default_factory=list)


# --- From records -------------------------------------------------------------------------------


def seed_run(
    name: str, config: PlainMapping, rows: Sequence[PlainMapping], identity: str
) -> SeedRun | None:
    """Return a run as one seed; None if it has no numbers yet.

    Args:
        name: name of the run.
        config: settings, nested or dotted; keys that begin with _ belong to wandb.
        rows: the history; names of our trackers (`update/mean_return`) lose their prefix.
        identity: name of the seed if the settings contain none.
    """
    own = {key: value for key, value in config.items() if not key.startswith("_")}
    settings = flatten(own)
    prefixes = {key.partition("/")[0] for row in rows for key in row if "/" in key}
    kind = next((kind for kind in _KINDS if kind in prefixes), None)
    columns = _columns(rows, kind)
    axes = {
        axis: next(columns[each] for each in names if each in columns)
        for axis, names in _SOURCES.items()
        if columns.keys() & set(names)
    }
    if not axes:
        return None
    if "_timestamp" in columns and axes.get("seconds") is columns["_timestamp"]:
        axes["seconds"] = axes["seconds"] - np.nanmin(axes["seconds"])
    agents = settings.get("seeds")
    is_ours = kind == "update" or "update" in columns
    if is_ours and "steps" in axes and isinstance(agents, int) and agents > 0:
        axes["steps"] = axes["steps"] / agents  # our frames count all agents
    metrics = {key: values for key, values in columns.items()
               if key not in _NOT_METRICS and not key.startswith("_")}  # fmt: skip
    default = next((one for one in _DEFAULTS if one in metrics), None)
    return SeedRun(name, seed_name(settings, identity), settings, axes, metrics, default)


def seed_name(settings: PlainMapping, identity: str) -> str:
    """Return the name of a seed, which is the same in a run directory and in a tracker."""
    own = ["run.seed"] if "run.seed" in settings else sorted(settings)
    seeds = [settings[key] for key in own if key.rpartition(".")[2] == "seed"]
    if RUN_ID in settings and AGENT in settings:
        seeds.append(settings[AGENT])
    return "/".join(map(str, seeds)) if seeds else identity


def _columns(rows: Sequence[PlainMapping], kind: str | None) -> dict[str, FloatArray]:
    """Return the numeric columns: one kind of our records, or all of another program."""
    if kind is not None:
        rows = [row for row in rows if any(key.startswith(f"{kind}/") for key in row)]
    keys = sorted(set().union(*rows))
    columns = {key.removeprefix(f"{kind}/"): numbers(row.get(key) for row in rows) for key in keys}
    return {name: values for name, values in columns.items() if np.isfinite(values).any()}
