"""Settings of an evolution of parts of a learner, and the problem that they describe."""

from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict
from metaevo.config.sections import Setting, extended, section
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.loop import EvolutionConfig
from metaevo.parts import classes, learners, resolve, seen
from metaevo.studies import unseen
from metaevo.studies.evaluation import EvaluationConfig
from metaevo.studies.settings import EvolutionSettings, RunConfig, problem_settings
from metaevo.tasks.binding import (
    TRAINING,
    LearnerConfig,
    LearnerSettings,
    TaskConfig,
    check_part,
    learner_sections,
)
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Task
from purerl.types import Hyperparams, Slot


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

    def build(self, run_path: Path | None = None) -> LearnerProblem:
        """Return the parts on their tasks, and on those of `evaluation.unseen`."""
        if self.tasks is not None:
            unseen.check_names(self.tasks, "tasks")
        is_one = isinstance(self.evolve, str)
        fillings = {
            slot.name: resolve.fill(slot, getattr(self, slot.name), run_path)
            for slot in self.fixed_slots()
        }
        try:
            problem = LearnerProblem(
                self.learner,
                [self.component] if is_one else list(vars(self.component).values()),
                self.tasks or [Task(self.task.env, self.task.env_params)],
                train=self.train,
                hyperparams=self.hyperparams,
                fixed=fillings,
                fitness=self.fitness,
                tasks_per_generation=self.tasks_per_generation,
                scales=(),
            )
        except ConfigError as error:
            if (text := str(error)) != (reason := text.removeprefix("parts: ")):
                raise ConfigError(f"evolve = {self.evolve!r}: {reason}") from None
            raise
        for name, filling in fillings.items():
            reference = getattr(self, name)
            if reference not in learners.slot_of(self.learner, name).functions:
                where, experiment = f"{name} = {reference!r}", problem.experiment
                setup, environment = experiment.settings, experiment.environment
                check_part(where, filling.part, filling.meta_params, setup, environment)
        if elsewhere := self.evaluation.unseen:
            unseen.check_names(elsewhere, unseen.WHERE)
            problem.elsewhere = problem.on(elsewhere, unseen.WHERE)
            unseen.check_unseen(elsewhere, self._known(run_path), self.learner)
        return problem

    def _known(self, run_path: Path | None) -> list[unseen.Seen]:
        """Return the environments that this evolution sees, and its learned parts have seen."""
        tasks, learner = self.evaluation.unseen, self.learner
        known = unseen.seen_by("", seen.in_settings(to_dict(self)), tasks, learner)
        for slot in self.fixed_slots():
            name = getattr(self, slot.name)
            before = resolve.seen_by(slot, name, run_path)
            known += unseen.seen_by(f"{slot.name} = {name!r}", before, tasks, learner)
        return known

    def fixed_slots(self) -> list[Slot]:
        """Return the slots that a setting fills."""
        return [slot for slot in learners.find(self.learner).slots if hasattr(self, slot.name)]

    def free(self) -> tuple[str, ...]:
        """Return the sections of trained agents."""
        return (*TRAINING, "fitness.")

    def judged_on(self) -> PlainDict:
        """Return the settings of agents, and the seed."""
        everything = to_dict(self)
        slots = [slot.name for slot in self.fixed_slots()]
        names = ("learner", "task", "tasks", "train", "hyperparams", "fitness", *slots)
        return {name: everything[name] for name in names} | {"seed": self.run.seed}


def settings_class(raw: PlainDict, component: str | None = None) -> type[EvolutionSettings]:
    """Return the class of unvalidated settings of an evolution: of a problem, or of parts.

    Arguments and errors as for `problem_settings` and `experiment_class`.
    """
    return (
        problem_settings(raw["problem"]) if "problem" in raw else experiment_class(raw, component)
    )


def experiment_class(raw: PlainDict, component: str | None = None) -> type[EvolveSettings]:
    """Return the class of unvalidated settings; some sections depend on others' names.

    Args:
        raw: the settings, of which `evolve` and `learner` are read.
        component: the part that is evolved if the settings name none.

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
