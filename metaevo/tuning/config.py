"""Settings of a sweep."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Gt, Interval

from metaevo.config.plain import PlainDict
from metaevo.runs.settings import HasRun, RecordConfig

MOST = 1_000_000
"""Upper limit of the numbers of seeds and of settings."""

ADAPTIVE = ("tpe", "cma_es")
"""Samplers that learn from finished trials."""
ADAPTIVE_BATCH = 16
"""Trials at once of these samplers, by default."""


@dataclass(frozen=True)
class SweepConfig:
    """Choice, training and objective of the trials.

    Examples:
        >>> config = metaevo.SweepConfig(seeds=2, statistic="iqm", confirm_seeds=4)

    Raises:
        ValueError: if the sampler cannot learn under the scheduler.
    """

    trials: Annotated[int, Interval(gt=0, le=MOST)] = 64
    """number of trials; a grid has at most as many as it has points"""
    sampler: Literal["grid", "random", "sobol", "tpe", "cma_es"] = "tpe"
    """Optuna's sampler that chooses their settings; tpe and cma_es learn from earlier trials"""
    batch: Annotated[int, Interval(gt=0, le=MOST)] | None = None
    """trials at once; by default 16 trainings of tpe and cma_es, all of the other samplers, and 1
    evolution or call of a function"""
    grid_points: Annotated[int, Interval(gt=1, le=1000)] = 5
    """values of a range in a grid"""
    seeds: Annotated[int, Interval(gt=0, le=MOST)] = 4
    """agents of a trial; all trials share their random keys"""
    statistic: Literal["mean", "iqm"] = "mean"
    """of the seeds' scores: the objective of a trial"""
    scheduler: Literal["none", "successive_halving", "hyperband"] = "none"
    """stops trials early (by Optuna)"""
    eta: Annotated[int, Gt(1)] = 3
    """of successive halving and hyperband: one in eta continues, with eta times the training"""
    min_fraction: Annotated[float, Interval(gt=0, le=1)] = 1 / 27
    """of the training: the shortest rung is at least as long"""
    confirm_seeds: Annotated[int, Interval(ge=0, le=MOST)] = 32
    """fresh seeds on which the winner and the settings it began from are trained; 0 for none"""
    storage: str | None = None
    """URL of a database for Optuna that several processes share; by default a journal in the run
    directory"""
    study: str | None = None
    """name of the study in the storage; by default the name of the run directory"""

    def __post_init__(self) -> None:
        """Check combinations of fields."""
        if self.sampler == "cma_es" and self.prunes:
            # Optuna's CMA-ES sees complete trials only.
            raise ValueError(
                f"sampler = 'cma_es' cannot learn from trials that scheduler = "
                f"{self.scheduler!r} stops early; use sampler tpe, or scheduler none"
            )

    @property
    def prunes(self) -> bool:
        """Whether the scheduler stops trials early."""
        return self.scheduler != "none"


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, tracking and how the work is split."""

    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by `metaevo.devices`"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


@dataclass(frozen=True, kw_only=True)
class SearchSettings(HasRun):
    """Settings of every sweep."""

    space: PlainDict = field(default_factory=dict)
    """search space: the dotted name of a setting, and uniform, log_uniform, integer, log_integer
    or choice"""
    run: RunConfig = field(default_factory=RunConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


OF_THE_SWEEP = ("space", "sweep", "run")
"""Sections that belong to the sweep as a whole, not to a trial."""
