"""The settings of a search: who chooses trials, and how they are trained and judged."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Interval

MOST = 1_000_000
"""Seeds and settings that are more than anyone needs, and fewer than memory has room for."""

ADAPTIVE = ("tpe", "cma_es")
"""Samplers that learn from finished trials."""


@dataclass(frozen=True)
class SweepConfig:
    """How trials are chosen, trained and judged.

    Raises:
        ValueError: for a sampler that learns nothing under the scheduler.
    """

    trials: Annotated[int, Interval(gt=0, le=MOST)] = 64
    """settings to try; a grid has as many as it has, at most"""
    sampler: Literal["grid", "random", "sobol", "tpe", "cma_es"] = "tpe"
    """who chooses them; tpe and cma_es learn from the trials before"""
    batch: Annotated[int, Interval(gt=0, le=MOST)] | None = None
    """trials asked for, and trained, at once; by default 16 of tpe and cma_es, all of the others"""
    grid_points: Annotated[int, Interval(gt=1, le=1000)] = 5
    """values of a range in a grid"""
    seeds: Annotated[int, Interval(gt=0, le=MOST)] = 4
    """agents of a trial; all trials share their random keys"""
    statistic: Literal["mean", "iqm", "quantile"] = "mean"
    """of the seeds' scores: the objective of a trial"""
    quantile: Annotated[float, Interval(ge=0, le=1)] = 0.25
    """which one, for the statistic quantile: low ones prefer settings that never fail"""
    scheduler: Literal["none", "successive_halving", "hyperband", "pbt"] = "none"
    """who stops trials early; pbt instead changes the settings of agents in mid-training"""
    eta: Annotated[int, Gt(1)] = 3
    """of successive halving and hyperband: one in eta survives, with eta times the training"""
    min_fraction: Annotated[float, Interval(gt=0, le=1)] = 1 / 27
    """of the training that the shortest rung gets at least"""
    confirm_seeds: Annotated[int, Interval(ge=0, le=MOST)] = 32
    """fresh seeds on which the winner and the settings it began from are trained; 0 for none"""
    storage: str | None = None
    """Optuna storage URL shared by several machines; by default a journal in the run directory"""
    study: str | None = None
    """name of the study in the storage; by default that of the run directory"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if self.sampler == "cma_es" and self.scheduler in ("successive_halving", "hyperband"):
            # Optuna's CMA-ES sees complete trials only.
            raise ValueError(
                f"sampler = 'cma_es' learns nothing from trials that scheduler = "
                f"{self.scheduler!r} stops early; use sampler tpe, or scheduler none"
            )


@dataclass(frozen=True)
class PbtConfig:
    """Population-based training (Jaderberg et al. 2017), for `sweep.scheduler: pbt`."""

    rounds: Annotated[int, Gt(1)] = 20
    """times that the population is ranked, at equal distances over the training"""
    truncation: Annotated[float, Interval(gt=0, le=0.5)] = 0.2
    """share of the population that is replaced by copies of the same share at the top"""
    perturb: tuple[Annotated[float, Gt(0)], ...] = (0.8, 1.25)
    """factors, one of which multiplies each setting of a copy"""
    resample: Annotated[float, Interval(ge=0, le=1)] = 0.25
    """probability that a setting of a copy is drawn from its range instead"""
