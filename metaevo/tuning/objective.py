"""Objectives of a sweep: a function of settings, trainings of agents, or whole evolutions.

A sweep knows an objective by this module's `Objective` only. Trainings are in
`metaevo.training.sweeps`, evolutions in `metaevo.studies.sweeps`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.files import plain
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics import iqm
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.study import Outcome, Record, Trial

BEFORE = "settings before the sweep"
"""Name of the settings that the winner is compared with on fresh seeds."""

Progress = Callable[[int], object]
"""Called with the environment steps just done; may raise to stop."""


@dataclass(frozen=True)
class Watch:
    """Callbacks of an objective."""

    done: Callable[[Trial, Outcome], None]
    """called for each trial as soon as it is decided"""
    should_prune: Callable[[Trial, int, float], bool]
    """called at a rung with the trial, its step and its value; whether to stop it"""
    progress: Progress
    stage: Callable[[str], None]
    """called with a name for the work that begins"""


@dataclass(frozen=True)
class Plan:
    """The size of a sweep."""

    trials: int
    groups: int | None
    """static combinations, one compilation each; None if they are unlimited"""
    invalid: tuple[str, ...] = ()
    """why some combinations cannot be trained; their trials will be reported as failed"""
    search_frames: int = 0
    """expected environment steps of all trials"""
    full_frames: int = 0
    """the same if every trial were trained to its end"""
    confirm_frames: int = 0
    chunk_size: int | None = None
    """agents trained at once on a device"""
    num_devices: int | None = None
    chunk_bytes: int | None = None
    """memory of a chunk"""

    def compilations(self) -> str:
        """Return the expected number of compilations as text."""
        if self.groups is None:
            return f"up to {self.trials} (a static setting has a continuous range)"
        return str(min(self.groups, self.trials))


class Objective(Protocol):
    """Evaluates the trials of a sweep in batches."""

    space: Space
    config: SweepConfig

    def plan(self) -> Plan:
        """Return the size of the sweep.

        Raises:
            ConfigError: if it cannot run.
        """

    def begin(self, run: RunDirectory | None) -> None:
        """Prepare; a run directory keeps the state that a resumed sweep needs."""

    def batch_size(self) -> int:
        """Return the maximum number of trials per batch."""

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Evaluate a batch; `watch.done` is called exactly once for every trial."""

    def finalists(self, best: Record) -> dict[str, Params]:
        """Return the settings to evaluate on fresh seeds by their names, the winner first."""

    def confirm(
        self, name: str, params: Params, seeds: int, progress: Progress
    ) -> tuple[np.ndarray, int]:
        """Evaluate a finalist on fresh seeds; return scores [seeds] and the number of failures."""

    def frames(self, params: Params) -> int:
        """Return the environment steps of settings on one seed."""

    def configs(self, params: Params) -> dict[str, Params]:
        """Return the settings of a trial as the files of configs that other commands read."""


class FunctionObjective:
    """A Python function from the settings of a trial, by their names, to its value."""

    def __init__(
        self, function: Callable[[Params], float], space: Space, config: SweepConfig
    ) -> None:
        """Bind a function, higher values of which are better; NaN for a trial that diverged."""
        self.function, self.space, self.config = function, space, config

    def plan(self) -> Plan:
        """Return the number of trials."""
        return Plan(num_trials(self.config, self.space), groups=1)

    def begin(self, run: RunDirectory | None) -> None:
        """Ignore the run: a Python function needs no preparation."""

    def batch_size(self) -> int:
        """One by one, unless the settings have a batch."""
        return self.config.batch or 1

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Call the function for each trial."""
        for trial in batch:
            value = float(self.function({**self.space.fixed, **trial.params}))
            if math.isfinite(value):
                watch.done(trial, Outcome("complete", value, [value]))
            else:
                watch.done(trial, Outcome("pruned", None, [None]))
            watch.progress(0)

    def finalists(self, best: Record) -> dict[str, Params]:
        """Return none: a function has no seeds."""
        return {}

    def confirm(
        self, name: str, params: Params, seeds: int, progress: Progress
    ) -> tuple[np.ndarray, int]:
        """Raise: there are no finalists."""
        raise NotImplementedError

    def frames(self, params: Params) -> int:
        """Return 0: the environment steps of a function are unknown."""
        return 0

    def configs(self, params: Params) -> dict[str, Params]:
        """Return the settings as they are."""
        return {"best.yaml": dict(params)}


def statistic(scores: np.ndarray, config: SweepConfig) -> float | None:
    """Return the statistic chosen in the settings, or None if a score is not finite.

    Args:
        scores: [seeds] scores of a trial; not finite if training diverged or no episode ended.
        config: settings with the name of the statistic.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not np.all(np.isfinite(scores)):
        return None
    if config.statistic == "mean":
        return float(np.mean(scores))
    if config.statistic == "iqm":
        return iqm(scores)
    return float(np.quantile(scores, config.quantile))


def traced_statistic(scores: jax.Array, config: SweepConfig) -> jax.Array:
    """Return the same statistic of finite scores [seeds] inside a compiled function."""
    if config.statistic == "iqm":
        cut = scores.shape[-1] // 4
        return jnp.mean(jnp.sort(scores)[cut : scores.shape[-1] - cut])
    if config.statistic == "quantile":
        return jnp.quantile(scores, config.quantile)
    return jnp.mean(scores)


def plain_scores(scores: np.ndarray) -> list[float | None]:
    """Return scores [seeds] as every storage can hold them: None where an agent diverged."""
    kept: list[float | None] = plain(scores)
    return kept
