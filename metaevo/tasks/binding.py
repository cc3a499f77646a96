"""An environment, and a learner bound to it with functions in its slots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax

from metaevo.config import ConfigError, code, failure
from metaevo.config.checks import Setting, section
from metaevo.config.code import Kind, resolve
from metaevo.config.plain import PlainDict
from metaevo.parts import learners
from metaevo.parts.part import Part, Parts, check_scalars
from metaevo.tasks.bound import Bound
from purerl import envs
from purerl.parts.own_task import OwnTask, sampler
from purerl.types import (
    Environment,
    EnvParams,
    Hyperparams,
    Learner,
    MetaParams,
    PyTree,
    SettingError,
    Slot,
)


def _complaint(env: Any) -> str:
    fits = all(hasattr(env, each) for each in ("step_env", "default_params"))
    return "" if fits else "must be a gymnax environment with default_params, reset_env, step_env"


ENVIRONMENT = Kind("task.env", "gymnax environment", _complaint)
TRAINING = ("task.", "train.", "hyperparams.")
"""Beginnings of the settings of trained agents."""


class LearnerConfig(Protocol):
    """The section `train` of any learner."""

    @property
    def total_timesteps(self) -> int:
        """Environment steps that an agent may take."""

    @property
    def num_updates(self) -> int:
        """Updates of a whole training run."""

    @property
    def frames_per_update(self) -> int:
        """Environment steps of one update."""


class LearnerSettings:
    """Base of settings with a learner: its name, its static settings and its traced settings."""

    learner: str
    train: LearnerConfig
    hyperparams: Hyperparams


@dataclass(frozen=True)
class TaskConfig:
    """Environment of the agents."""

    env: str = "CartPole-v1"
    """the environment's name"""
    env_params: PlainDict = field(default_factory=dict)
    """overrides of the environment's parameters"""


def learner_sections(learner: str) -> list[Setting]:
    """Return the learner's name and the sections that belong to it, as settings.

    Raises:
        ConfigError: for an unknown one.
    """
    entry = learners.find(learner)
    return [
        Setting("learner", str, learner),
        section("train", entry.config),
        section("hyperparams", entry.hyperparams),
    ]


def make_learner(
    settings: LearnerSettings,
    env: Environment,
    env_params: EnvParams,
    meta_params: MetaParams = None,
    **slots: Any,
) -> Learner:
    """Bind the learner of the settings to an environment, with functions in its slots.

    If the environment is a distribution of tasks, every agent gets its own task. `meta_params` is
    an example for the functions: arrays, or their shapes.

    Raises:
        ConfigError: if the learner cannot act in the environment, or cannot use a setting.
    """
    try:  # traces the networks without compiling
        learner = learners.find(settings.learner).make(settings.train, env, **slots)
        sample_params = sampler(env)
        if sample_params is not None:
            learner = OwnTask(learner, sample_params)
        jax.eval_shape(
            lambda key, example: learner.init(key, settings.hyperparams, example, env_params),
            jax.random.key(0),
            meta_params,
        )
    except SettingError as error:
        raise ConfigError(f"train.{error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"task.env: learner {settings.learner!r} cannot act in {env.name}: {error}"
        ) from error
    return learner


def make_environment(task: TaskConfig, learner: str) -> tuple[str, Any, Any]:
    """Return the name, environment and parameters of a task.

    Raises:
        ConfigError: for an unknown environment or parameter.
    """
    default = {"observations": learners.find(learner).observations}
    try:
        given = resolve(ENVIRONMENT, task.env) if code.is_name(task.env) else task.env
        env, params = envs.make(given, **{**default, **task.env_params})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"task.env: {error}") from error
    rehearse(task.env, env, params)
    return task.env, env, params


def rehearse(name: str, env: Environment, params: PyTree) -> None:
    """Trace a reset and a step; raise `ConfigError` if the environment fails or is unsuitable."""

    def play(key):
        _, state = env.reset(key, params)
        return env.step(key, state, env.action_space(params).sample(key), params)

    try:
        _, _, reward, terminated, *_ = jax.eval_shape(play, jax.random.key(0))
    except Exception as error:
        raise ConfigError(
            f"task.env: {name} cannot be reset and stepped: {type(error).__name__}: {error}"
        ) from error
    if reward.shape != ():
        raise ConfigError(f"task.env: {name}.step: reward has shape {reward.shape}: must be ()")
    if terminated.shape != () or terminated.dtype != bool:
        raise ConfigError(
            f"task.env: {name}.step: terminated is {terminated.dtype}{list(terminated.shape)}: "
            "must be a bool"
        )


def check_part(
    where: str,
    part: Part,
    meta_params: MetaParams,
    settings: LearnerSettings,
    environment: tuple[str, Any, Any],
) -> None:
    """Trace a part as the learner calls it, without compiling.

    A function of scalars is traced alone, any other one in an update of the learner, which has the
    context that the learner provides.

    Args:
        where: the setting that names the part.
        part: in a slot of the learner.
        meta_params: of the part, or their shapes.
        settings: of the learner.
        environment: its name, the environment and its parameters.

    Raises:
        ConfigError: naming the setting, if it fails or its result has another shape.
    """
    slot = learners.slot_of(settings.learner, part.slot)
    if slot.inputs:
        check_scalars(where, part, slot, meta_params, settings.hyperparams)
        return
    _, env, env_params = environment

    def update(key: jax.Array, meta_params: MetaParams) -> Any:
        functions = {slot.name: part.apply}
        learner = learners.find(settings.learner).make(settings.train, env, **functions)
        hyperparams, params = settings.hyperparams, env_params
        if (sample := sampler(env)) is not None:
            params = sample(key, env_params)
        state = learner.init(key, hyperparams, meta_params, params)
        return learner.update(state, hyperparams, meta_params, params)

    try:
        jax.eval_shape(update, jax.random.key(0), meta_params)
    except Exception as error:
        make_learner(settings, env, env_params)  # unless the environment is at fault
        what = f"{where}: {slot.signature} fails in an update of {settings.learner}"
        raise failure(what, error) from error


class Experiment(NamedTuple):
    """Parts of a learner in an environment, as the settings of an evolution describe them."""

    settings: Any
    """of the evolution; of several tasks, with the changes of this one"""
    evolved: Parts
    fixed: dict[str, Callable[..., Any]]
    """functions in the other slots; they ignore their meta-parameters"""
    environment: tuple[str, Any, Any]
    """name, environment and parameters"""

    def slots(self) -> dict[str, Slot]:
        """Return the slots that are evolved, by their names."""
        return {
            name: learners.slot_of(self.settings.learner, name) for name in self.evolved.by_slot
        }

    def references(self) -> dict[str, Callable[..., Any]]:
        """Return the hand-written references of the slots that are evolved."""
        return {name: slot.functions[slot.compared[0]] for name, slot in self.slots().items()}

    def reference(self) -> Bound:
        """Bind the learner with the references of the slots that are evolved."""
        return self.task(self.references(), None)

    def task(self, functions: Mapping[str, Callable[..., Any]], example: PyTree) -> Bound:
        """Bind the learner to the environment.

        `example` are meta-parameters of the evolved `functions`, or their shapes.
        """
        name, env, params = self.environment
        slots = {**self.fixed, **functions}
        return Bound(name, make_learner(self.settings, env, params, example, **slots), params)
