"""Settings of an experiment, and the parts built from these settings before compilation."""

from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any

from annotated_types import Gt, Interval

from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict
from metaevo.config.sections import Setting, extended, section
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.settings import StrategyConfig
from metaevo.parts import classes, learners, resolve
from metaevo.runs.settings import MAX_SEED, HasRun, RecordConfig
from metaevo.studies.evaluation import EvaluationConfig
from metaevo.tasks.binding import (
    LearnerConfig,
    LearnerSettings,
    TaskConfig,
    learner_sections,
)
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.task import Task
from purerl.types import Hyperparams, Slot


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Settings of a run, with the number of evolutions.

    Examples:
        >>> found = metaevo.evolve(problem, run=metaevo.RunConfig(seed=1), generations=2)
    """

    evolution_seeds: Annotated[int, Interval(ge=1, le=1000)] = 1
    """evolutions one after another, with the seeds run.seed, run.seed + 1, ..., and one report"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed + self.evolution_seeds - 1 > MAX_SEED:
            raise ValueError(
                f"seed = {self.seed} with evolution_seeds = {self.evolution_seeds}: the last seed "
                f"must be at most {MAX_SEED}"
            )


class EvolutionSettings(HasRun):
    """Base of the settings of all evolutions."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    run: RunConfig


@dataclass(frozen=True)
class HeldOutConfig:
    """Settings of the judgement of a problem."""

    seeds: Annotated[int, Interval(ge=0, le=100_000)] = 128
    """held-out seeds of every contender; 0 for no judgement"""


@dataclass(frozen=True, kw_only=True)
class ProblemSettings(EvolutionSettings):
    """Settings of an evolution of any problem; those of its class are added."""

    problem: str = ""
    """the class of the problem: FILE.py:NAME or MODULE:NAME"""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: HeldOutConfig = field(default_factory=HeldOutConfig)
    run: RunConfig = field(default_factory=RunConfig)


@dataclass(frozen=True, kw_only=True)
class EvolveSettings(LearnerSettings, EvolutionSettings):
    """Settings of an evolution of a part of a learner."""

    learner: str
    evolve: str | tuple[str, ...]
    """the part to evolve, or a list of several"""
    task: TaskConfig = field(default_factory=TaskConfig)
    tasks: dict[str, Task] | None = None
    """instead of task: several tasks by their names, each with its changes to the settings and
    distributions that are drawn from in every generation"""
    tasks_per_generation: Annotated[int, Gt(0)] | None = None
    """of these tasks, how many every candidate is evaluated on in a generation; by default all"""
    train: LearnerConfig
    hyperparams: Hyperparams
    component: Any
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        count, most = self.tasks_per_generation, len(self.tasks or {})
        if self.tasks is None:
            if count is not None:
                raise ValueError(f"tasks_per_generation = {count}: needs tasks")
            return
        if not self.tasks:
            raise ValueError("tasks: is empty; name at least one task")
        if self.task != TaskConfig():
            raise ValueError(
                "task and tasks: give one of them; a rule of several tasks is judged on others by "
                "metaevo evaluate --unseen FILE"
            )
        if count is not None and count > most:
            raise ValueError(f"tasks_per_generation = {count}: there are {most} tasks")


def experiment_class(raw: PlainDict, component: str | None) -> type[EvolveSettings]:
    """Return the dataclass of an experiment's settings; some sections depend on others' names.

    Args:
        raw: the unvalidated settings, of which `evolve` and `learner` are read.
        component: the part to evolve if `evolve` is not set.

    Raises:
        ConfigError: for an unknown part or learner, or a learner without the part's slot.
    """
    learner = raw.get("learner", "ppo")
    settings = learner_sections(learner)
    evolve = raw.get("evolve", component)
    if evolve is None:
        names = ", ".join(classes.SHIPPED)
        raise ConfigError(f"missing key 'evolve': what to evolve, one of: {names}")
    evolved = classes.slots_of(evolve, learner, raw.get("component"))
    parts = {short: cls for short, (_, cls) in classes.classes_of(evolve).items()}
    if isinstance(evolve, str):
        (part,) = parts.values()
        settings.append(section("component", part))
        settings.append(section("strategy", part.strategy or StrategyConfig))
    else:
        fields = [(name, each, field(default_factory=each)) for name, each in parts.items()]
        settings.append(section("component", make_dataclass("Components", fields, frozen=True)))
        evolve = tuple(evolve)
    slots = [
        Setting(slot.name, str, slot.compared[0], resolve.describe(slot))
        for slot in learners.find(learner).slots
        if slot.name not in evolved
    ]
    settings.append(Setting("evolve", str | tuple[str, ...], evolve))
    return extended(EvolveSettings, [*settings, *slots])


def judged_on(settings: EvolveSettings) -> PlainDict:
    """Return the settings that scores depend on, except the budget and the space."""
    everything = to_dict(settings)
    slots = [slot.name for slot in fixed_slots(settings)]
    names = ("learner", "task", "tasks", "train", "hyperparams", "fitness", *slots)
    return {name: everything[name] for name in names} | {"seed": settings.run.seed}


def fixed_slots(settings: EvolveSettings) -> list[Slot]:
    """Return the slots that a setting of an experiment fills."""
    slots = learners.find(settings.learner).slots
    return [slot for slot in slots if hasattr(settings, slot.name)]
