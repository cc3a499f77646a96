"""Settings of an evolution, and those of one that evolves parts of a learner."""

import dataclasses
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
from annotated_types import Gt, Interval

from metaevo.config import ConfigError, PlainDict, PlainMapping, show, to_dict
from metaevo.config.checks import Setting, extended, section
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import MetaProblem
from metaevo.judging.budget import MOST, QUICK, Budget
from metaevo.parts import learners, records
from metaevo.parts.records import SeenTask
from metaevo.runs.run import MAX_SEED, HasRun, RecordConfig
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Task, TaskConfig, learner_sections, make_environment
from purerl.types import Hyperparams, Slot

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PROBLEM_CLASS = "metaevo.studies.problems:problem_class"
"""Makes the class of the settings of a problem, imported when it is used."""


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Settings of a run, with the number of evolutions.

    Examples:
        >>> found = metaevo.evolve(problem, run=metaevo.RunConfig(seed=1), generations=2)
    """

    evolution_seeds: Annotated[int, Interval(ge=1, le=1000)] = 1
    """evolutions one after another, with the seeds run.seed, run.seed + 1, ..., and one report"""

    @property
    def seeds(self) -> range:
        """The seeds of the evolutions."""
        return range(self.seed, self.seed + self.evolution_seeds)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds[-1] > MAX_SEED:
            raise ValueError(
                f"seed = {self.seed} with evolution_seeds = {self.evolution_seeds}: the last seed "
                f"must be at most {MAX_SEED}"
            )


@dataclass(frozen=True)
class HeldOutConfig:
    """The judgement of any problem, against its contenders."""

    seeds: Annotated[int, Interval(ge=0, le=MOST)] = 128
    """held-out seeds of every contender; 0 for no judgement"""

    def budget(self, *, unseen: bool = False) -> Budget:
        """Return the settings and seeds of each contender on each task."""
        return Budget(settings=0, seeds=self.seeds)


@dataclass(frozen=True)
class EvaluationConfig(HeldOutConfig, Budget):
    """The judgement of parts: a budget of settings and seeds, and what is tuned and compared."""

    space: PlainDict = field(default_factory=dict)
    """hyperparams to tune, each with a list of values or, as in a sweep, with a range
    ({log_uniform: [1e-4, 1e-2]})"""
    own: dict[str, PlainDict] = field(default_factory=dict)
    """for hand-written functions, by their names: hyperparams with their own ranges, instead of the
    common ones ({momentum: {learning_rate: {log_uniform: [1e-3, 1]}}})"""
    contenders: tuple[str, ...] = ()
    """hand-written functions to compare with, by their names ([adam, rmsprop]); empty for all"""
    unseen: dict[str, Task] = field(default_factory=dict)
    """tasks that evolution has not seen, by their names ({Acrobot-v1: {train: {num_envs: 8}}}), on
    which all are tuned and compared, too"""
    quick_unseen: bool = False
    """whether the unseen tasks have the smaller budget of `--comparison quick`"""

    def budget(self, *, unseen: bool = False) -> Budget:
        """Return the settings and seeds of each contender on each task."""
        return replace(self, **_limited(vars(self))) if unseen and self.quick_unseen else self


def resized(evaluation: PlainMapping, size: str) -> PlainDict:
    """Return the section `evaluation`, as plain data, for a size: none, quick or full."""
    if size == "none":
        return {**evaluation, "seeds": 0} | ({"unseen": {}} if "unseen" in evaluation else {})
    return {**evaluation, **(_limited(evaluation) if size == "quick" else {})}


def _limited(evaluation: PlainMapping) -> PlainDict:
    """Return the numbers of a quick comparison."""
    limits = vars(QUICK).items()
    return {key: min(evaluation[key], most) for key, most in limits if key in evaluation}


class EvolutionSettings(HasRun):
    """Base of the settings of all evolutions."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    evaluation: HeldOutConfig
    run: RunConfig

    def build(self, run_path: Path | None = None) -> MetaProblem:
        """Return the problem, with the copies of parts in an existing run, without scales."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class EvolveSettings(EvolutionSettings):
    """Settings of an evolution of a part of a learner."""

    learner: str
    evolve: str | tuple[str, ...] | dict[str, str]
    """the part to evolve, a list of several, or several by the slots that they fill"""
    task: TaskConfig = field(default_factory=TaskConfig)
    tasks: dict[str, Task] | None = None
    """instead of task: several tasks by their names, each with its changes to the settings and
    distributions that are drawn from in every generation"""
    tasks_per_generation: Annotated[int, Gt(0)] | None = None
    """of these tasks, how many every candidate is evaluated on in a generation; by default all"""
    train: Any
    hyperparams: Hyperparams
    component: Any
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.tasks_per_generation
        if self.tasks is None:
            if count is not None:
                raise ValueError(f"tasks_per_generation = {count}: needs tasks")
            return
        if not self.tasks:
            raise ValueError("tasks: is empty; name at least one task")
        if self.task != TaskConfig():
            raise ValueError(
                "task and tasks: must be only one of them; a rule of several tasks is judged on "
                "others by metaevo evaluate --unseen FILE"
            )

    def build(self, run_path: Path | None = None) -> LearnerProblem:
        """Return the parts on their tasks, and on those of `evaluation.unseen`."""
        _check_names(self.tasks or {}, "tasks")
        is_one = isinstance(self.evolve, str)
        slots = self.fixed_slots()
        fillings = {}
        if slots:
            from metaevo.parts.resolve import fill

            fillings = {each.name: fill(each, getattr(self, each.name), run_path) for each in slots}
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
            named = {f"fixed.{name}": f"{name} = {getattr(self, name)!r}" for name in fillings}
            key, _, reason = str(error).partition(": ")
            shown = {**named, "parts": f"evolve = {self.evolve!r}"}.get(key, key)
            raise ConfigError(f"{shown}: {reason}" if reason else key) from None
        if elsewhere := self.evaluation.unseen:
            _check_names(elsewhere, "evaluation.unseen")
            problem.elsewhere = problem.on(elsewhere, "evaluation.unseen")
            known = {"": records.tasks_in(to_dict(self))}
            for slot in slots:
                name = getattr(self, slot.name)
                if name not in slot.functions:
                    from metaevo.parts.resolve import copy_or, seen_by

                    used = copy_or(slot.name, name, run_path)
                    known[f"{slot.name} = {name!r}"] = seen_by(used)
            _check_unseen(elsewhere, known, self.learner)
        return problem

    def fixed_slots(self) -> list[Slot]:
        """Return the slots that a setting fills."""
        return [slot for slot in learners.find(self.learner).slots if hasattr(self, slot.name)]


def _check_names(tasks: Mapping[str, Task], where: str) -> None:
    """Raise `ConfigError` for a name of a task that cannot be part of a file's name."""
    for name in tasks:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where}: {show(name)} must have only letters, digits, '.', '_' and '-'; "
                "the environment may have another name: env: NAME"
            )


def _check_unseen(
    tasks: Mapping[str, Task], seen: Mapping[str, Sequence[SeenTask]], learner: str
) -> None:
    """Raise `ConfigError`, naming the task, if one was used in the evolution.

    `seen` are all tasks that a rule has seen, by the setting that names it; "" is this evolution.
    """
    for name, task in tasks.items():
        env = task.env or name
        own = _environment(env, task.env_params, learner)
        for rule, known in seen.items():
            for each in known:
                if each.env == env and _has_seen(each, own, learner, rule):
                    by = f"{rule} was evolved on" if rule else "evolution sees"
                    raise ConfigError(
                        f"evaluation.unseen.{name}: {by} this task (task.env = {env})"
                    )


def _environment(env: Any, env_params: Mapping[str, Any], learner: str) -> tuple[Any, Any]:
    """Return an environment with default observations, and its parameters."""
    bare = {key: value for key, value in env_params.items() if key != "observations"}
    return make_environment(TaskConfig(env, bare), learner)[1:]


def _has_seen(task: SeenTask, own: tuple[Any, Any], learner: str, rule: str) -> bool:
    """Return whether a task is an environment, of which it may draw some parameters."""
    env, params = _environment(task.env, task.env_params, learner)
    if env is not own[0]:  # `envs.make` caches by its arguments
        return False
    drawn: Mapping[str, Any] = {}
    if task.sample:
        from metaevo.tasks.sampling import ENV_PARAMS, of_prefix, read

        drawn = of_prefix(read(task.sample, f"{rule}: tasks.{task.name}.sample"), ENV_PARAMS)
    for name in (each.name for each in dataclasses.fields(params)):
        ours, theirs = getattr(own[1], name), getattr(params, name)
        if name not in drawn:
            same = jax.tree.all(jax.tree.map(np.array_equal, ours, theirs))
        elif (choices := getattr(drawn[name], "choices", None)) is not None:
            same = ours in choices
        else:
            same = drawn[name].low <= ours <= drawn[name].high
        if not same:
            return False
    return True


def settings_class(raw: PlainDict) -> type[Any]:
    """Return the class of unvalidated settings: of a problem, or `EvolveSettings` of parts.

    Some sections depend on names in others. The file of a user's problem or part is executed.

    Raises:
        ConfigError: for an unknown problem, part or learner, or a problem with a field of another
            setting's name.
    """
    if "problem" in raw:
        made: type[Any] = pkgutil.resolve_name(PROBLEM_CLASS)(raw["problem"])
        return made
    learner = raw.get("learner", "ppo")
    settings = learner_sections(learner)
    evolve = raw.get("evolve")
    if evolve is None:
        names = ", ".join(learners.PARTS)
        raise ConfigError(f"missing key 'evolve': what to evolve, one of: {names}")
    evolved = learners.classes_to_evolve(evolve, learner, raw.get("component"))
    if isinstance(evolve, str):
        ((_, part),) = evolved.values()
        settings.append(section("component", part))
        settings.append(section("strategy", part.strategy or StrategyConfig))
    else:
        by_slot = isinstance(evolve, dict)
        several = [
            (name, cls, field(default_factory=partial(cls.for_slot, slot) if by_slot else cls))
            for name, (slot, cls) in evolved.items()
        ]
        settings.append(section("component", make_dataclass("Components", several, frozen=True)))
        evolve = evolve if by_slot else tuple(evolve)
    taken = {slot for slot, _ in evolved.values()}
    slots = [
        Setting(slot.name, str, slot.compared[0], records.describe(slot))
        for slot in learners.find(learner).slots
        if slot.name not in taken
    ]
    settings.append(Setting("evolve", str | tuple[str, ...] | dict[str, str], evolve))
    return extended(EvolveSettings, [*settings, *slots])
