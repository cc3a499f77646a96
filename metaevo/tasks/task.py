"""`Task`: an environment with a learner's settings for it, and a learner bound to one.

setup = Setup.of("ppo", train, hyperparams, Task("CartPole-v1"))
bound = setup.bind({"value_loss": huber})
result = bound.train(key, hyperparams, meta_params)    # one agent, from scratch
score, measured = bound.score(weights, result)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, failure, from_dict, merge, references, show, to_dict
from metaevo.config.checks import Setting, section
from metaevo.config.plain import PlainDict, is_name
from metaevo.config.references import Kind, resolve
from metaevo.evolution import devices
from metaevo.parts import learners
from metaevo.parts.part import HandWritten, Part, signature
from metaevo.tasks.fitness import FitnessConfig, all_finite, fitness, measures
from purerl import envs
from purerl.parts.evaluation import GreedyEvaluations, time_limit
from purerl.parts.own_task import OwnTask, sampler
from purerl.types import (
    Environment,
    EnvParams,
    Hyperparams,
    Learner,
    MetaParams,
    SettingError,
    TrainResult,
)


def _complaint(env: Any) -> str:
    fits = all(hasattr(env, each) for each in ("step_env", "default_params"))
    return "" if fits else "must be a gymnax environment with default_params, reset_env, step_env"


ENVIRONMENT = Kind("task.env", "gymnax environment", _complaint)


@dataclass(frozen=True)
class TaskConfig:
    """Environment of the agents."""

    env: str = "CartPole-v1"
    """the environment's name"""
    env_params: PlainDict = field(default_factory=dict)
    """overrides of the environment's parameters"""


@dataclass(frozen=True)
class Task(TaskConfig):
    """An environment, with changes to the settings of a learner and distributions of them.

    Examples:
        >>> metaevo.Task("CartPole-v1", train={"num_envs": 8})
        >>> metaevo.Task("CartPole-v1", sample={"updates": {"integer": [16, 64]}})
    """

    env: Any = ""
    """the environment: its name, `my_env.py:Class`, `my_package:Class`, or in Python a gymnax
    environment as a class or an object; empty if it has the name of the task"""
    train: PlainDict = field(default_factory=dict)
    """changes of the section train"""
    hyperparams: PlainDict = field(default_factory=dict)
    """changes of the section hyperparams"""
    sample: PlainDict = field(default_factory=dict)
    """distributions by name, each with the rule of a search space: env_params.NAME,
    hyperparams.NAME, updates (the length of training) and reward_scale"""


class Scale(NamedTuple):
    """Scores on a task, at its full length and without draws, that count as 0 and 1."""

    random: float
    """of an agent that never learns"""
    reference: float
    """of the hand-written parts"""


class Bound(NamedTuple):
    """A learner with functions in its slots, in the environment of a task."""

    name: str
    """of the task, or of its environment"""
    learner: Learner
    env_params: EnvParams
    hyperparams: Hyperparams
    """of the learner"""
    sample: Any = None
    """a `metaevo.tasks.sampling.Sample` of traced settings; None if none is drawn"""
    evaluations: GreedyEvaluations | None = None
    """of the greedy policy during a training; None if the fitness needs none"""

    def evaluated_for(self, weights: FitnessConfig) -> "Bound":
        """Return the task with the evaluations that a fitness needs, at the task's longest.

        Raises:
            ConfigError: if episodes have no time limit, a training has fewer updates than
                evaluations, or the learner's `train` is its own and cannot evaluate.
        """
        if not weights.evaluation_return:
            return self._replace(evaluations=None)
        from metaevo.parts import conformance

        config, count = self.learner.config, weights.evaluations
        if count > config.num_updates:
            raise ConfigError(
                f"fitness.evaluations = {count}: must be at most {config.num_updates}, the updates "
                f"of a training on {self.name}"
            )
        where = f"fitness.evaluation_return = {weights.evaluation_return:g}"
        params = self.env_params if self.sample is None else self.sample.longest(self.env_params)
        if (limit := time_limit(self.learner.env, params)) is None:
            raise ConfigError(
                f"{where}: episodes of {self.name} may have no end; "
                "add `max_steps_in_episode: int` to the environment's parameters"
            )
        conformance.check_train(self.learner, where, "evaluations")
        planned = GreedyEvaluations(count, weights.evaluation_episodes, limit)
        evaluated = self._replace(evaluations=planned)
        if evaluated.frames() >= 2**31:
            raise ConfigError(
                f"fitness.evaluations = {count}: with {planned.frames:,} environment steps each, "
                "the frames of an agent must be less than 2^31"
            )
        return evaluated

    def frames(self, updates: Any = None) -> Any:
        """Return the environment steps of an agent's training, with those of its evaluations.

        It has so many `updates`, by default all.
        """
        config, evaluations = self.learner.config, self.evaluations
        steps = (config.num_updates if updates is None else updates) * config.frames_per_update
        return steps + (evaluations.times * evaluations.frames if evaluations else 0)

    def train(
        self, key: jax.Array, hyperparams: Hyperparams, meta_params: MetaParams, **length: Any
    ) -> TrainResult:
        """Train one agent from scratch; `num_updates` may shorten it."""
        settings = devices.as_inputs((hyperparams, meta_params, self.env_params))
        if self.evaluations is not None:
            length["evaluations"] = self.evaluations
        return self.learner.train(key, *settings, **length)

    def score(
        self, weights: FitnessConfig, result: TrainResult, num_updates: jax.Array | None = None
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Return the fitness of one training, and its measures.

        A diverged agent still acts and collects returns, so only its parameters show it: its
        fitness is NaN.
        """
        measured = measures(result.episodes, num_updates, result.evaluations)
        finite = all_finite(self.learner.policy(result.state))
        return jnp.where(finite, fitness(weights, measured), jnp.nan), measured

    def agent_bytes(self, meta_params: MetaParams) -> tuple[int, int, int]:
        """Estimate the bytes of an agent, without compilation.

        Returns:
            of its state, of the replay memory in it, and of a gradient, a batch and the episodes
            of an evaluation.
        """
        learner, key = self.learner, jax.random.key(0)
        state = jax.eval_shape(learner.init, key, self.hyperparams, meta_params, self.env_params)
        obs, env_state = jax.eval_shape(learner.env.reset, key, self.env_params)
        gradient = devices.num_bytes(jax.eval_shape(learner.policy, state))
        batch = learner.config.batch_size * (2 * devices.num_bytes(obs) + 64)
        replay = devices.num_bytes(getattr(state, "ring", ()))
        episodes = self.evaluations.episodes if self.evaluations else 0
        played = episodes * devices.num_bytes((obs, env_state))
        return devices.num_bytes(state), replay, gradient + batch + played

    def working_set(self, meta_params: MetaParams) -> int:
        """Estimate the bytes that training one agent walks over.

        On a CPU, where they should fit into a cache, a replay memory does not count: a learning
        step touches only a few rows. On an accelerator, where they divide up the memory, it does.
        """
        state, replay, working = self.agent_bytes(meta_params)
        return state + working - (replay if jax.devices()[0].platform == "cpu" else 0)

    def check_memory(
        self, where: str, meta_params: MetaParams, *, kept: int, at_once: int, points: int = 0
    ) -> None:
        """Raise `ConfigError` if agents are too large or too many for the memory.

        The settings `where` decide that `kept` agents are in memory from beginning to end, and
        `at_once` trained at the same time; each learning curve has so many `points`.
        """
        state, _, working = self.agent_bytes(meta_params)
        state += points * 6 * 4  # float32 sums
        agents = max(kept, at_once)
        devices.check_memory(f"train: a single agent in {self.name}", state + working)
        needed = agents * state + at_once * working
        devices.check_memory(f"{where}: {agents} agents in {self.name}", needed)


@dataclass(frozen=True)
class Setup:
    """A learner's settings in an environment, before functions fill its slots."""

    learner: str
    train: Any
    """static settings, an object of the learner's `Config` with the reference to a network"""
    hyperparams: Hyperparams
    name: str
    """of the environment"""
    env: Environment
    env_params: EnvParams

    @classmethod
    def of(cls, learner: str, train: Any, hyperparams: Hyperparams, task: TaskConfig) -> "Setup":
        """Return the setup of settings; raises `ConfigError` as `make_environment` does."""
        return cls(learner, train, hyperparams, *make_environment(task, learner))

    def bind(
        self, functions: Mapping[str, Callable[..., Any]], example: MetaParams = None
    ) -> Bound:
        """Bind the learner to the environment, with functions in its slots.

        `example` are meta-parameters for the functions, or their shapes. If the environment is a
        distribution of tasks, every agent gets its own task.

        Raises:
            ConfigError: if the learner cannot act in the environment, or cannot use a setting, or,
                as a learner of the user's own, lacks a method or returns another shape.
        """
        key, train = jax.random.key(0), learners.with_network(self.train)
        settings = self.hyperparams, example, self.env_params
        is_own, entry = self.learner not in learners.LEARNERS, learners.find(self.learner)
        stage = "make"
        try:  # traces the networks without compiling
            learner = self._make(train, functions)
            stage = f"{type(learner).__name__}.init"
            if is_own:
                from metaevo.parts import conformance

                conformance.check_methods(self.learner, learner)
            jax.eval_shape(learner.init, key, *settings)
        except ConfigError:
            raise
        except SettingError as error:
            raise ConfigError(f"train.{error}") from error
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"task.env: learner {self.learner!r} cannot act in {self.env.name}: {error}"
            ) from error
        except Exception as error:
            if not is_own:
                raise
            what = f"learner = {show(self.learner)}: {stage} fails"
            raise failure(what, error) from error
        if is_own:
            conformance.check_results(self.learner, entry, learner, settings)
        return Bound(self.name, learner, self.env_params, self.hyperparams)

    def check(self, where: str, part: Part, meta_params: MetaParams = None) -> Any:
        """Trace a part in an update of the learner, without compiling, unless it is its own.

        Returns:
            the meta-parameters, by default the shapes that the part's `init` returns.

        Raises:
            ConfigError: naming `where`, the setting, if it fails or its result has another shape.
        """
        slot = learners.slot_of(self.learner, part.slot)
        if isinstance(part, HandWritten) and part.function in slot.functions.values():
            return meta_params
        if meta_params is None:
            try:
                meta_params = jax.eval_shape(part.init, jax.random.key(0))
            except Exception as error:
                raise failure(f"{where}: init(key) fails", error) from error
        train = learners.with_network(self.train)

        def apply(*arguments: Any) -> Any:
            result = part.apply(*arguments)
            found = jax.eval_shape(lambda: result) if slot.inputs else None
            if slot.inputs and getattr(found, "shape", None) != ():
                raise ConfigError(f"{where}: {signature(slot)} must return a scalar, not {found}")
            return result

        def update(key: jax.Array, meta_params: MetaParams) -> Any:
            state = learner.init(key, self.hyperparams, meta_params, self.env_params)
            return learner.update(state, self.hyperparams, meta_params, self.env_params)

        try:
            learner = self._make(train, {slot.name: apply})
            jax.eval_shape(update, jax.random.key(0), meta_params)
        except ConfigError:
            raise
        except Exception as error:
            self.bind({})  # raises if the environment is at fault
            what = f"{where}: {signature(slot)} fails in an update of {self.learner}"
            raise failure(what, error) from error
        return meta_params

    def _make(self, train: Any, functions: Mapping[str, Callable[..., Any]]) -> Learner:
        learner = learners.find(self.learner).make(train, self.env, **functions)
        sample = sampler(self.env)
        return learner if sample is None else OwnTask(learner, sample)


def changed_settings(base: Any, changes: Any, where: str) -> Any:
    """Return settings with changes; `base` is an object of their class, or the class."""
    kind, start = (base, {}) if isinstance(base, type) else (type(base), to_dict(base))
    changes = learners.named_network(changes)
    if isinstance(changes, kind):
        changes = to_dict(changes)
    if not (changes is None or isinstance(changes, Mapping)):
        raise ConfigError(f"{where} = {show(changes)}: must be a {kind.__name__} or a dict")
    try:
        return from_dict(kind, merge(start, dict(changes or {})))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def named_tasks(tasks: Any) -> dict[str, Task]:
    """Return tasks by names: by default of their environments, with a number if there are two."""
    if isinstance(tasks, Mapping) and tasks:
        return {
            name: _named(task, references.name_of(task.env or name)) for name, task in tasks.items()
        }
    named: dict[str, Task] = {}
    for given in [tasks] if isinstance(tasks, str | Task) else tasks:
        task = given if isinstance(given, Task) else Task(given)
        env = references.name_of(task.env)
        name, number = env.rpartition(":")[2], 1
        while name in named:
            number += 1
            name = f"{env.rpartition(':')[2]}-{number}"
        named[name] = _named(task, env)
    if not named:
        raise ConfigError("tasks: must have at least one task")
    return named


def _named(task: Task, env: str) -> Task:
    return replace(task, env=env, train=learners.named_network(task.train))


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


def make_environment(task: TaskConfig, learner: str) -> tuple[str, Any, Any]:
    """Return the name, environment and parameters of a task.

    Raises:
        ConfigError: for an unknown environment or parameter, or one that fails in a step.
    """
    name = task.env
    default = {"observations": learners.find(learner).observations}
    try:
        given = resolve(ENVIRONMENT, name) if is_name(name) else name
        env, params = envs.make(given, **{**default, **task.env_params})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"task.env: {error}") from error

    def play(key: jax.Array) -> Any:
        _, state = env.reset(key, params)
        return env.step(key, state, env.action_space(params).sample(key), params)

    try:
        _, _, reward, terminated, *_ = jax.eval_shape(play, jax.random.key(0))
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"task.env: {name} cannot be reset and stepped: {what}") from error
    if reward.shape != ():
        raise ConfigError(f"task.env: {name}.step: reward has shape {reward.shape}: must be ()")
    if terminated.shape != () or terminated.dtype != bool:
        kind = f"{terminated.dtype}{list(terminated.shape)}"
        raise ConfigError(f"task.env: {name}.step: terminated is {kind}: must be a bool")
    return name, env, params
