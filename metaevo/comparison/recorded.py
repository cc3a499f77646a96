"""A run as it was recorded, in a directory or in wandb, and its seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.run_directory import numbers
from metaevo.statistics import FloatArray
from purerl.metrics import BETTER, Direction

EVALUATION = "evaluation"
"""Metric with the held-out scores of an evolution; those of a contender are `evaluation:NAME`."""
MEAN = "mean"
"""Name of the mean over the agents of a training: `SEED/mean`; the agents are `SEED/INDEX`."""
KINDS = "update", "generation", "trial"
"""Kinds of records that are compared; a run has one of them."""
_STEPS = "environment steps"
AXES = {
    "generation": "generations", "trial": "trials", "frames": _STEPS, "global_step": _STEPS,
    "env_steps": _STEPS, "environment_steps": _STEPS, "total_timesteps": _STEPS,
    "timesteps": _STEPS, "total_steps": _STEPS, "_step": "logged steps",
}  # fmt: skip
"""Columns that hold positions, the first of which is used, and what they count."""
SEED_KEYS = "seed", "seeds", "random_seed", "run_seed"
"""Last parts of config keys that select the random seed."""
_DEFAULTS = (
    "fitness_of_mean", "fitness_mean", "best_value", "mean_return", "value", "episodic_return",
    "episode_return", "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean",
    "fitness",
)  # fmt: skip
"""Metrics that are compared by default, the first of which is used."""
_HIGHER = re.compile(
    r"(^|_)(returns?|rewards?|fitness|score|success)$|^ep_rew_mean$|^reward_per_step$"
    r"|^(evaluation|low|high|(best_)?value|fitness_(of_mean|mean|best|low|high))$"
)
"""Metrics that are better if high."""
_BOOKKEEPING = "run.", "evolution.chunk_size", "evolution.num_devices", "evolution.block_size"
"""Prefixes of config keys without an effect on the result."""
_ENVIRONMENT = "task.env", "env", "env_id", "env_name", "environment"
_ENV_PARAMS = "task.env_params", "env_params"
"""Prefixes of config keys that define the task; scores on different tasks are never pooled."""
_OF_EVOLUTION = "strategy.", "evolution.", "evaluation.", "run."
"""Prefixes of the settings of a user's problem that are not its own; its own define the task."""
_NOT_METRICS = "kind", "index", "update", "generation", "trial", "frames", "seconds"


def direction(metric: str) -> Direction | None:
    """Return whether higher or lower values of a metric are better; None if unknown."""
    name = metric.rpartition("/")[2].partition(":")[0]
    if name in BETTER:
        return BETTER[name]
    if name == "diverged":
        return "lower"
    return "higher" if _HIGHER.search(name) else None


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """Settings and records of one run. Runs are compared by identity."""

    name: str
    config: PlainDict
    """settings by dotted key"""
    rows: Sequence[PlainMapping]
    """records, of one kind"""
    kind: str = ""
    """one of `KINDS`; empty for a run of another program"""
    is_finished: bool = True
    held_out: Mapping[str, FloatArray] = field(default_factory=dict)
    """scores [seeds] by contender, or by the way in which policies were played"""
    identity: str = "0"
    """name of its random seed if the settings have none"""

    @cached_property
    def seed(self) -> str:
        """Name of the random seed, the same in a run directory and in wandb."""
        own = ["run.seed"] if "run.seed" in self.config else sorted(self.config)
        seeds = [self.config[key] for key in own if key.rpartition(".")[2] == "seed"]
        return "/".join(map(str, seeds)) or self.identity

    @cached_property
    def task(self) -> str:
        """Environment and its parameters, or a problem and its fields."""
        return " ".join(
            str(value) if key in _ENVIRONMENT else f"{key.rpartition('.')[2]}={value}"
            for key, value in sorted(self.config.items())
            if self._defines_task(key) and value not in (None, {})
        )

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings as text, without the seed, bookkeeping and the task."""
        return {
            key: _text(value)
            for key, value in self.config.items()
            if key.rpartition(".")[2] not in SEED_KEYS
            and not key.startswith(_BOOKKEEPING)
            and not self._defines_task(key)
        }

    def _defines_task(self, key: str) -> bool:
        if "problem" in self.config:
            return not key.startswith(_OF_EVOLUTION)
        return key in _ENVIRONMENT or key.startswith(_ENV_PARAMS)


@dataclass(frozen=True, eq=False)
class SeedRun:
    """Metrics of one seed of a run, or of the mean over its agents."""

    run: RecordedRun
    seed: str
    """name of the random seed"""
    metrics: dict[str, FloatArray]
    """[records] values by name, NaN where missing; of held-out scores [1]"""
    axis: str = ""
    """what the positions count; empty for held-out scores"""
    x: FloatArray = field(default_factory=lambda: np.empty(0))
    """[records] positions"""

    @property
    def is_mean(self) -> bool:
        """Whether it holds means over the agents of its run."""
        return self.seed.endswith(f"/{MEAN}")

    @property
    def default(self) -> str | None:
        """Metric that is compared by default."""
        if not self.axis:
            return EVALUATION if EVALUATION in self.metrics else None
        return next((name for name in _DEFAULTS if name in self.metrics), None)


def seeds_of(run: RecordedRun, notes: list[str]) -> list[SeedRun]:
    """Return the seeds of a run that have any numbers, and append to the notes."""
    rows = run.rows
    if run.kind == "trial" and rows:
        best = np.fmax.accumulate(numbers(row.get("value") for row in rows)).tolist()
        rows = [{**row, "best_value": value} for row, value in zip(rows, best, strict=True)]
    seeds = _agents(run, notes) if run.kind == "update" else [_curves(run, run.seed, rows)]
    for index in range(max(map(len, run.held_out.values()), default=0)):
        known = {name: each for name, each in run.held_out.items() if index < len(each)}
        scores = {f"{EVALUATION}:{name}": each[index : index + 1] for name, each in known.items()}
        if run.kind == "generation":  # the discovery is the first contender
            scores[EVALUATION] = next(iter(scores.values()))
        seeds.append(SeedRun(run, f"{run.seed}/{index}", scores))
    return [seed for seed in seeds if seed.metrics]


def _agents(run: RecordedRun, notes: list[str]) -> list[SeedRun]:
    """Return a seed for every agent of a training, and one for metrics that are means over them."""
    count = int(run.config.get("seeds") or 1)
    mean = _curves(run, f"{run.seed}/{MEAN if count > 1 else 0}", run.rows, count)
    if diverged := int(max((row.get("diverged") or 0 for row in run.rows), default=0)):
        notes.append(
            f"{run.name}: {diverged} of its {count} agents diverged: metrics that are recorded as "
            "a mean over the others count as missing"
        )
        averaged = set().union(*run.rows).difference(_NOT_METRICS, ("mean_return", "diverged"))
        mean.metrics.update(dict.fromkeys(averaged, np.full(len(run.rows), np.nan)))
    if count == 1:
        return [mean]
    returns = zip(*(row.get("returns") or [] for row in run.rows), strict=False)
    agents = [
        SeedRun(run, f"{run.seed}/{index}", {"mean_return": numbers(values)}, mean.axis, mean.x)
        for index, values in enumerate(returns)
    ]
    if agents:
        mean.metrics.pop("mean_return", None)
    return [*agents, mean]


def _curves(run: RecordedRun, seed: str, rows: Sequence[PlainMapping], agents: int = 1) -> SeedRun:
    """Return a seed from records that count the environment steps of so many agents together."""
    found = {key: numbers(row.get(key) for row in rows) for key in sorted(set().union(*rows))}
    columns = {key: values for key, values in found.items() if np.isfinite(values).any()}
    position = next((name for name in AXES if name in columns), None)
    if position is None:
        return SeedRun(run, seed, {})
    metrics = {
        key: values
        for key, values in columns.items()
        if key not in _NOT_METRICS and not key.startswith("_")
    }
    return SeedRun(run, seed, metrics, AXES[position], columns[position] / agents)


def _text(value: Any) -> str:
    """Format a value; 1 and 1.0 are equal."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value) if is_whole else value)
