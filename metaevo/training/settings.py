"""Settings of a training run, the parts that they describe, and its saved files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Interval

from metaevo.config import ConfigError, PlainDict, PlainMapping, references, show
from metaevo.config.checks import Setting, extended
from metaevo.parts import learners, records
from metaevo.parts.part import of_key
from metaevo.parts.resolve import fill
from metaevo.runs.run import HasRun, RecordConfig
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.task import Setup, TaskConfig, learner_sections
from metaevo.tuning.config import MOST
from purerl.parts.own_task import sampler
from purerl.types import Hyperparams, Slot

if TYPE_CHECKING:
    from metaevo.tasks.population import Population

DEFAULTS = {("ppo", "value_loss"): "clipped_squared"}
"""Hand-written functions that are the default although they are not the first of their slot."""


@dataclass(frozen=True)
class PlayConfig:
    """Settings of the evaluation of trained policies."""

    episodes: Annotated[int, Interval(ge=0, le=MOST)] = 20
    """that every trained policy plays; 0 for none"""
    greedy: bool = True
    """take the likeliest action instead of sampling one"""
    gymnasium: Annotated[int, Ge(0)] = 0
    """agents, the first ones, that also play in Gymnasium's environment of the same name"""
    film: bool | None = None
    """record an episode of the first agent, as figures/episode.gif; null: if the environment can
    be drawn"""


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, checkpoints, tracking and how the work is split."""

    log_every: Annotated[int, Gt(0)] | None = None
    """updates of one point of the learning curves; by default there are at most 200 points"""
    checkpoint_seconds: Annotated[float, Ge(0)] = 60.0
    """the least time between two checkpoints"""
    block_seconds: Annotated[float, Gt(0)] = 2.0
    """maximum seconds on the devices between two returns to the host (at least one update)"""
    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by metaevo.devices"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


@dataclass(frozen=True, kw_only=True)
class TrainSettings(HasRun):
    """Settings of a training run.

    In addition, every slot of the learner that takes functions by name has a setting: the name of a
    hand-written function, or a run's directory.
    """

    learner: str
    seeds: Annotated[int, Gt(0)] = 8
    """agents, which differ in their random keys only"""
    task: TaskConfig = field(default_factory=TaskConfig)
    train: Any
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    evaluation: PlayConfig = field(default_factory=PlayConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def population(
        self,
        run_path: Path | None = None,
        given: PlainMapping | None = None,
        **options: Any,
    ) -> "Population":
        """Return agents of these settings, to train in steps of one's own.

        Args:
            run_path: an existing run; its copies of evolved functions are used.
            given: what fills slots instead, as `metaevo.train` takes it.
            options: those of `metaevo.Population`; by default it has `seeds` agents.

        Raises:
            ConfigError: if the learner cannot be built.
        """
        from metaevo.tasks.population import Population  # it starts JAX

        setup = Setup.of(self.learner, self.train, self.hyperparams, self.task)
        if sampler(setup.env) is not None:
            raise ConfigError(
                f"task.env = {setup.name!r}: is a distribution of tasks, in which every agent gets "
                "its own: evolve in it, but train in a single task"
            )
        functions, meta_params = {}, {}
        for slot in learners.find(self.learner).slots:
            name = slot.name
            value = (given or {}).get(name, getattr(self, name))
            part, meta_params[name] = fill(slot, value, run_path)
            setup.check(f"{name} = {show(value)}", part, meta_params[name])
            functions[name] = of_key(name, part.apply)
        task = setup.bind(functions, meta_params)
        own = {name: getattr(self.run, name) for name in ("log_every", "chunk_size", "num_devices")}
        return Population(task, meta_params, self.fitness, **{"agents": self.seeds} | own | options)


def with_task(settings: PlainMapping) -> PlainDict:
    """Return settings with `env` and `env_params`, as Python functions take them, in `task`.

    The environment and the network may be a name, a class or an object.
    """
    raw = {key: value for key, value in settings.items() if key not in ("env", "env_params")}
    if "train" in raw:
        raw["train"] = learners.named_network(raw["train"])
    if "env" in settings:
        env = settings["env"]
        name = env if isinstance(env, list | tuple) else references.name_of(env)
        raw["task"] = {"env": name, "env_params": dict(settings.get("env_params") or {})}
    return raw


def training_class(raw: PlainMapping) -> type[TrainSettings]:
    """Return the dataclass of a training run's settings.

    Some sections depend on the learner, which is read from the unvalidated settings `raw`.

    Raises:
        ConfigError: for an unknown learner.
    """
    learner = raw.get("learner", "ppo")
    slots = [
        Setting(slot.name, str, default_function(learner, slot), records.describe(slot))
        for slot in learners.find(learner).slots
    ]
    return extended(TrainSettings, [*learner_sections(learner), *slots])


def default_function(learner: str, slot: Slot) -> str:
    """Return the name of the hand-written function that fills a slot unless another is named."""
    return DEFAULTS.get((learner, slot.name), next(iter(slot.functions)))


def title_of(settings: TrainSettings) -> str:
    """Return the learner's name, with the functions in its slots that are not the default."""
    learner = settings.learner
    slots = learners.find(learner).slots
    used = [(getattr(settings, slot.name), default_function(learner, slot)) for slot in slots]
    named = ", ".join(name for name, default in used if name != default)
    return f"{learner} with {named}" if named else learner
