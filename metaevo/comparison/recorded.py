"""A run as it was recorded, in a directory or in wandb, and the curves of its seeds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.trackers import OF_AGENTS
from metaevo.statistics import FloatArray

EVALUATION = "evaluation"
"""Metric with the held-out scores of an evolution; those of a contender are `evaluation:NAME`."""
MEAN, EVALUATED = "mean_return", "evaluation_return"
BY_AGENT = dict(zip((MEAN, EVALUATED), OF_AGENTS, strict=True))
"""Metrics that a training records for every agent, and where; others are means over its agents."""
_EMPTY = np.empty(0)
KINDS = "update", "generation", "trial"
"""Kinds of records that are compared; a run has one of them."""
_STEPS = "environment steps"
AXES = {
    "generation": "generations", "trial": "trials", "frames": _STEPS, "global_step": _STEPS,
    "env_steps": _STEPS, "environment_steps": _STEPS, "total_timesteps": _STEPS,
    "timesteps": _STEPS, "total_steps": _STEPS, "_step": "logged steps",
}  # fmt: skip
"""Columns that hold positions, the first of which is used, and what they count."""
_DEFAULTS = (
    "fitness_of_mean", "fitness_mean", "best_value", MEAN, "episodic_return", "episode_return",
    "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean", "value", "fitness",
)  # fmt: skip
"""Metrics that are compared by default, the first of which is used."""
_HIGHER = re.compile(
    r"(^|_)(returns?|rewards?|fitness|score|success)$|^ep_rew_mean$|^reward_per_step$"
    r"|^(evaluation|low|high|(best_)?value|fitness_(of_mean|mean|best|low|high))$"
)
"""Metrics that are better if high."""
_LOWER = "value_loss", "value_error", "diverged"
_WITHOUT_EFFECT = "run.", "evolution.chunk_size", "evolution.num_devices", "evolution.block_size"
"""Prefixes of settings without an effect on the result."""
SEED_KEYS = "seed", "seeds", "random_seed", "run_seed"
"""Last parts of the settings that select the random seed."""
_ENVIRONMENT = "task.env", "env", "env_id", "env_name", "environment"
_ENV_PARAMS = "task.env_params", "env_params"
"""Prefixes of the settings that define the task; scores on different tasks are never pooled."""
_OF_EVOLUTION = "strategy.", "evolution.", "evaluation.", "run."
"""Prefixes of the settings of a user's problem that are not its own; its own define the task."""
_NOT_METRICS = {*KINDS, "kind", "index", "frames", "seconds"}
_WITHOUT_PARAMETERS = {MEAN, EVALUATED, "diverged", "episodes"}
"""Metrics of a training that diverged agents have, too."""

Direction = Literal["higher", "lower"]


def numbers(values: Iterable[Any]) -> FloatArray:
    """Convert recorded values to floats; NaN for other types and non-finite numbers."""
    known = (each if type(each) in (int, float) else np.nan for each in values)
    found = np.array(list(known), np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def direction(metric: str) -> Direction | None:
    """Return whether higher or lower values of a metric are better; None if unknown."""
    name = metric.rpartition("/")[2].partition(":")[0]
    if name in _LOWER:
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
    """one of `KINDS`; empty without records, and for a run of another program"""
    is_finished: bool = True
    held_out: Mapping[str, FloatArray] = field(default_factory=dict)
    """scores [seeds] by the way in which policies were played, or [1] by contender"""
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
        """Settings as text, without seeds, the task, and settings without an effect."""
        return {
            key: _text(value)
            for key, value in self.config.items()
            if key.rpartition(".")[2] not in SEED_KEYS
            and not key.startswith(_WITHOUT_EFFECT)
            and not self._defines_task(key)
        }

    def _defines_task(self, key: str) -> bool:
        if "problem" in self.config:
            return not key.startswith(_OF_EVOLUTION)
        return key in _ENVIRONMENT or key.startswith(_ENV_PARAMS)

    @property
    def agents(self) -> int:
        """Number of agents that a training trains together."""
        return int(self.config.get("seeds") or 1) if self.kind == "update" else 1

    @cached_property
    def columns(self) -> dict[str, FloatArray]:
        """Numbers [records] by key, NaN where missing."""
        keys = sorted(set().union(*self.rows))
        found = {key: numbers(row.get(key) for row in self.rows) for key in keys}
        if self.kind == "trial" and "value" in found:
            found["best_value"] = np.fmax.accumulate(found["value"])
        return {key: each for key, each in found.items() if np.isfinite(each).any()}

    @cached_property
    def axis(self) -> str:
        """Column with the positions of the records; empty without any."""
        return next((name for name in AXES if name in self.columns), "")

    @cached_property
    def x(self) -> FloatArray:
        """Positions [records] of a single agent."""
        return self.columns[self.axis] / self.agents

    @cached_property
    def diverged(self) -> int:
        """Number of agents of a training that diverged."""
        found = self.columns.get("diverged", _EMPTY) if self.kind == "update" else _EMPTY
        return int(np.nanmax(found, initial=0))

    @cached_property
    def scores(self) -> dict[str, FloatArray]:
        """Held-out scores [seeds] by metric."""
        found = {f"{EVALUATION}:{name}": scores for name, scores in self.held_out.items()}
        if self.kind == "generation" and found:  # the discovery is the first contender
            found[EVALUATION] = next(iter(found.values()))
        return found

    @cached_property
    def metrics(self) -> list[str]:
        """Names of the metrics."""
        keys = set().union(*self.rows) if self.diverged else set(self.columns)
        keys |= {MEAN} if self.kind == "update" else set()
        keys = {key for key in keys - _NOT_METRICS if self.axis and not key.startswith("_")}
        return sorted(keys | self.scores.keys())

    @property
    def default(self) -> str | None:
        """Metric of curves that is compared by default."""
        return next((name for name in _DEFAULTS if name in self.metrics), None)

    def curves(self, metric: str) -> "list[Curve]":
        """Return the curve of every seed without a score, or its held-out score."""
        if metric in self.scores:
            scores = enumerate(self.scores[metric].tolist())
            return [Curve(self, f"{self.seed}/{i}", _EMPTY, _EMPTY, score) for i, score in scores]
        missing = np.full(len(self.rows), np.nan)
        is_known = not self.diverged or metric in _WITHOUT_PARAMETERS
        values = [self.columns.get(metric, missing) if is_known else missing]
        if metric in BY_AGENT and self.agents > 1:
            returns = zip_longest(*(row.get(BY_AGENT[metric]) or [] for row in self.rows))
            values = [numbers(each) for each in returns] or values
        found = []
        for index, y in enumerate(values):
            known = np.isfinite(self.x) & np.isfinite(y)
            order = np.argsort(self.x[known], kind="stable")
            seed = f"{self.seed}/{index}" if self.kind == "update" else self.seed
            found.append(Curve(self, seed, self.x[known][order], y[known][order], np.nan))
        return found


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of a seed; held-out scores have no points."""

    run: RecordedRun
    seed: str
    """name of the random seed"""
    x: FloatArray
    """positions of the finite values, in order"""
    y: FloatArray
    """finite values"""
    score: float
    """NaN if it has none"""


def _text(value: Any) -> str:
    """Format a value; 1 and 1.0 are equal."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value) if is_whole else value)
