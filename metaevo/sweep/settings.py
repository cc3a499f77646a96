"""The settings of a sweep: those of a training run or of an evolution, and what to try."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.agents.fitness import FitnessConfig
from metaevo.agents.task import LearnerConfig, TaskConfig
from metaevo.config.numbers import check_numbers
from metaevo.config.sections import specialised
from metaevo.held_out.evaluation import EvaluationConfig
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.outer_loop.strategy import StrategyConfig
from metaevo.runs.settings import RecordConfig
from metaevo.search.config import PbtConfig, SweepConfig
from metaevo.studies.settings import EvolveSettings, evolving, experiment_class
from metaevo.studies.settings import RunConfig as EvolutionRunConfig
from metaevo.training.settings import with_named_functions
from purerl.types import Hyperparams


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, tracking and how the work is split."""

    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by metaevo.devices"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The settings of a sweep over trainings, and of a trial of it."""

    learner: str
    space: dict[str, Any] = field(default_factory=dict)
    """what to try: a setting's dotted name, and uniform, log_uniform, integer, log_integer, choice
    or fixed"""
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    run: RunConfig = field(default_factory=RunConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    pbt: PbtConfig = field(default_factory=PbtConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)


@dataclass(frozen=True, kw_only=True)
class EvolutionSweepSettings(SweepSettings):
    """The settings of a sweep over evolutions, and of a trial of it."""

    evolve: str | tuple[str, ...]
    """the component to evolve, or a list of several"""
    component: Any
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)

    def of_evolution(self) -> EvolveSettings:
        """Return the settings of the evolution that a trial is; nothing is compared at its end."""
        raw = {"learner": self.learner, "evolve": self.evolve}
        made = experiment_class(raw, None)
        names = {each.name for each in dataclasses.fields(made)} - {"run", "evaluation"}
        return made(
            **{name: getattr(self, name) for name in names},
            evaluation=EvaluationConfig(seeds=0),
            run=EvolutionRunConfig(seed=self.run.seed),
        )


ORDER = (
    "space", "task", "train", "hyperparams", "component", "fitness",
    "strategy", "evolution",
)  # fmt: skip
"""Of the settings of a sweep over evolutions after those of the slots, as config.yaml has them."""


def sweep_class(raw: dict[str, Any]) -> type[SweepSettings]:
    """Return the dataclass of a sweep's settings.

    They are those of a training run (`metaevo.training.settings`) or, with `evolve:`, of an
    evolution (`metaevo.studies.settings`), without what a sweep decides, and this module's.

    Raises:
        ConfigError: for an unknown learner or component.
    """
    if "evolve" in raw:
        opened = evolving(raw, None)
        order = ("learner", "evolve", *opened.texts, *ORDER)
        return specialised(EvolutionSweepSettings, *opened, later=opened.texts, order=order)
    return with_named_functions(SweepSettings, raw, ("learner",))
