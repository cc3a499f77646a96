"""Settings of a sweep."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Gt, Interval

from metaevo.config.plain import PlainDict
from metaevo.runs.run import HasRun, RecordConfig

MOST = 1_000_000
"""Upper limit of the numbers of seeds and of settings."""


@dataclass(frozen=True)
class SweepConfig:
    """Choice, training and objective of the trials.

    Examples:
        >>> config = metaevo.SweepConfig(seeds=2, statistic="iqm", confirm_seeds=4)
    """

    trials: Annotated[int, Interval(gt=0, le=MOST)] = 64
    """number of trials; at most as many as a grid has points, which are its choices and integers"""
    sampler: Literal["grid", "random", "sobol", "tpe", "cma_es"] = "tpe"
    """Optuna's sampler that chooses their settings; tpe and cma_es learn from earlier trials"""
    batch: Annotated[int, Interval(gt=0, le=MOST)] | None = None
    """trials at once; by default 16 trainings, and 1 evolution or call of a function"""
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
    """fresh seeds on which the winner and the settings it began from are trained; 0 for none; fewer
    than 6 decide nothing"""
    storage: str | None = None
    """URL of a database for Optuna that several processes share; by default a journal in the run
    directory"""
    study: str | None = None
    """name of the study in the storage; by default the name of the run directory"""

    def __post_init__(self) -> None:
        if self.storage:
            from metaevo.tuning.storage import check_url

            check_url(self.storage)


@dataclass(frozen=True, kw_only=True)
class SweepSettings(HasRun):
    """Settings of a sweep, in addition to those of the training or the evolution of its trials."""

    space: PlainDict = field(default_factory=dict)
    """search space: the dotted name of a setting, and uniform, log_uniform, integer, log_integer
    or choice"""
    sweep: SweepConfig = field(default_factory=SweepConfig)
    run: RecordConfig = field(default_factory=RecordConfig)


OF_THE_SWEEP = ("space", "sweep", "run", "seeds", "evaluation")
"""Sections that do not belong to a trial; of these, seeds and evaluation are unused."""
