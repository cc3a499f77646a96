"""The settings of a sweep: those of a training run or of an evolution, and what to try."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.config.numbers import check_numbers
from metaevo.config.sections import LATER, without
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.strategy import StrategyConfig
from metaevo.runs.settings import RecordConfig
from metaevo.studies import registry
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.settings import RunConfig as EvolutionRunConfig
from metaevo.training.fitness import FitnessConfig
from metaevo.training.settings import with_named_functions
from metaevo.training.task import LearnerConfig, TaskConfig
from metaevo.tuning.config import PbtConfig, SweepConfig
from purerl.types import Hyperparams


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, tracking and how the work is split."""

    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by metaevo.devices"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """What every sweep has."""

    space: dict[str, Any] = field(default_factory=dict)
    """what to try: a setting's dotted name, and uniform, log_uniform, integer, log_integer, choice
    or fixed"""
    run: RunConfig = field(default_factory=RunConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    pbt: PbtConfig = field(default_factory=PbtConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)


@dataclass(frozen=True, kw_only=True)
class SweepSettings(SearchSettings):
    """The settings of a sweep over trainings, and of a trial of it."""

    learner: str
    task: TaskConfig = field(default_factory=TaskConfig)
    channel: str = field(default="none", metadata={LATER: True})
    """what is heard behind observations: none, silence, constant, random, noise, the directory of a
    run of cheap talk, or zoo:NAME"""
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)


@dataclass(frozen=True, kw_only=True)
class EvolutionSweepSettings(SearchSettings):
    """The settings of a sweep over evolutions, and of a trial of it.

    Beside them, it has all settings of the evolutions, of whatever is evolved, but `evaluation`.
    """

    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)

    def of_evolution(self) -> EvolutionSettings:
        """Return the settings of the evolution that a trial is; nothing is compared at its end."""
        given = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        made = registry.find(given).settings(given, None)
        kinds = {each.name: each for each in dataclasses.fields(made)}
        evaluation: Any = kinds["evaluation"].type
        own = {name: given[name] for name in kinds if name in given and name != "run"}
        settings: EvolutionSettings = made(
            **own, evaluation=evaluation(seeds=0), run=EvolutionRunConfig(seed=self.run.seed)
        )
        return settings


def sweep_class(raw: dict[str, Any]) -> type[SearchSettings]:
    """Return the dataclass of a sweep's settings.

    They are those of a training run (`metaevo.training.settings`) or, with `evolve:` or `study:`,
    of an evolution (`metaevo.studies`), without what a sweep decides, and this module's.

    Raises:
        ConfigError: for an unknown learner, component or study.
    """
    if "evolve" in raw or "study" in raw:
        if raw.get("study") == registry.LEARNER:
            del raw["study"]  # the settings of a learner's study have no such key
        made = registry.find(raw).settings(raw, None)
        return without(made, ("run", "evaluation"), EvolutionSweepSettings)
    return with_named_functions(SweepSettings, raw, ("learner",))
