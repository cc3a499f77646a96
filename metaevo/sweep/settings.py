"""The settings of a sweep: those of a training run or of an evolution, and what to try."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Gt, Interval

from metaevo.agents.fitness import FitnessConfig
from metaevo.held_out.evaluation import MOST
from metaevo.search.space import KINDS
from metaevo.studies.settings import RecordConfig, experiment_class, settings_class
from metaevo.training.settings import training_class


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
    """of successive halving and hyperband: one in eta goes on, with eta times the training"""
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
            # Optuna's CMA-ES is told of complete trials only.
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
    """probability that a setting of a copy is drawn anew instead"""


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, tracking and how the work is split."""

    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by metaevo.devices"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


SPACE: tuple[Any, Any, str] = (
    dict[str, Any],
    dict,
    "what to try: a setting's dotted name, and uniform, log_uniform, integer, log_integer, "
    "choice or fixed",
)
"""Type, default and documentation of the section `space`."""


def sweep_class(raw: dict[str, Any]) -> type:
    """Return the dataclass of a sweep's settings.

    They are those of a training run (`metaevo.training.settings`) or, with `evolve:`, of an
    evolution (`metaevo.studies.settings`), without what a sweep decides, and this module's.

    Raises:
        ConfigError: for an unknown learner or component.
    """
    base = experiment_class(raw, None) if "evolve" in raw else training_class(raw)
    kept = [each for each in dataclasses.fields(base) if each.name not in ("seeds", "evaluation")]
    scalars = [each for each in kept if not dataclasses.is_dataclass(each.type)]
    sections: dict[str, Any] = {
        each.name: each.type for each in kept if dataclasses.is_dataclass(each.type)
    }
    sections |= {"fitness": FitnessConfig, "sweep": SweepConfig, "pbt": PbtConfig, "run": RunConfig}
    described = {
        each.name: (each.type, each.default, each.metadata.get("doc", ""))
        for each in scalars
        if each.name != "learner"
    }
    return settings_class(raw.get("learner", "ppo"), sections, {**described, "space": SPACE})


def dotted_space(space: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a space with the dotted names of its settings, each with its rule.

    A YAML may nest them, and so does the command line (`--space.hyperparams.gamma "{...}"`), which
    comes last and wins.
    """
    found: dict[str, Any] = {}
    for key, rule in space.items():
        nested = isinstance(rule, dict) and rule and not set(rule) & {*KINDS, "step"}
        found |= dotted_space(rule, f"{prefix}{key}.") if nested else {prefix + key: rule}
    return found
