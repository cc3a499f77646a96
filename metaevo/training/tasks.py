"""Evolution of a learned part on named tasks.

A named task is an environment with changes to the settings of a learner. Traced settings may be
drawn anew in every generation, see `sampling.py`. Static settings make it a separate program, and a
generation runs only the programs of the tasks that it draws.

    problem = TrainOnTasks(distributions, part, FitnessConfig(), drawn=4)
    task = problem.draw_task(key, 0)
    problem.evaluate(key, meta_params, task)    # trains one agent in it from scratch
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from optuna.distributions import IntDistribution

from metaevo.config import ConfigError, from_dict, merge, to_dict
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem, Programs
from metaevo.parts.part import Part, Parts
from metaevo.training import sampling
from metaevo.training.bounds import Bounds
from metaevo.training.fitness import FitnessConfig, all_finite, fitness, measures
from metaevo.training.task import Experiment, TaskConfig, make_environment
from metaevo.training.train_learner import Task, working_set
from metaevo.tuning import ranges
from metaevo.tuning.ranges import Entry
from purerl.envs.scaled import ScaledParams, ScaledRewards
from purerl.types import Environment, EnvParams, Hyperparams


@dataclass(frozen=True)
class NamedTask:
    """A task, with its changes to the settings."""

    env: str = ""
    """name of the environment; empty if it has the name of the task"""
    env_params: PlainDict = field(default_factory=dict)
    """overrides of the environment's parameters"""
    train: PlainDict = field(default_factory=dict)
    """changes of the section train"""
    hyperparams: PlainDict = field(default_factory=dict)
    """changes of the section hyperparams"""


@dataclass(frozen=True)
class TaskDistribution(NamedTask):
    """A task of an evolution, with distributions of its traced settings."""

    sample: PlainDict = field(default_factory=dict)
    """distributions by name, each with the rule of a search space: env_params.NAME,
    hyperparams.NAME, updates (the length of training) and reward_scale"""


class Distribution(NamedTuple):
    """A learner bound to a named task, and the distributions of its settings."""

    name: str
    task: Task
    hyperparams: Hyperparams
    sample: Mapping[str, Entry]
    bounds: Bounds | None = None
    """at the full length and without draws; needed for several tasks"""


class Drawn(NamedTuple):
    """One task of a generation."""

    place: jax.Array
    """[] int32, number of the distribution"""
    key: jax.Array
    """raw key of all that is drawn in it"""


@dataclass(frozen=True)
class TrainOnTasks(MetaProblem):
    """A learner on several tasks.

    A generation draws some of the distributions, without repetition, and values in each.
    """

    distributions: Sequence[Distribution]
    part: Part | Parts
    fitness: FitnessConfig
    drawn: int
    """tasks of a generation"""

    @property
    def tasks(self) -> list[str]:  # type: ignore[override]
        """The names of the distributions."""
        return [each.name for each in self.distributions]

    @property
    def tasks_per_generation(self) -> int:
        """How many of them a generation draws."""
        return self.drawn

    @property
    def working_set_bytes(self) -> int:
        """Working set of training one agent; see `choose_chunk_size`."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return max(working_set(one.task, one.hyperparams, shapes) for one in self.distributions)

    @property
    def programs(self) -> Programs | None:  # type: ignore[override]
        """How the meta-parameters behave, if they are programs."""
        return self.part.programs()

    def init(self, key: jax.Array) -> MetaParams:
        """Return meta-parameters of the parts."""
        return self.part.init(key)

    def draw_task(self, key: jax.Array, index: jax.Array | int) -> Drawn:
        """Return task number `index` of a generation; a distribution recurs after all others."""
        count = len(self.distributions)
        order = jax.random.permutation(key, count)
        own = jax.random.fold_in(key, index)
        return Drawn(order[index % count].astype(jnp.int32), jax.random.key_data(own))

    def frames(self, task: Drawn) -> jax.Array:
        """Return the environment steps of an evaluation on a task, [] int32."""

        def steps(one: Distribution, key: jax.Array) -> jax.Array:
            config, length = one.task.learner.config, updates_of(_values(one, key))
            count = config.num_updates if length is None else length
            return jnp.int32(count * config.frames_per_update)

        each = [functools.partial(steps, one) for one in self.distributions]
        return jax.lax.switch(task.place, each, task.key)

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: Drawn) -> Evaluation:
        """Train one agent on a task from `draw_task`.

        1 is the score that the hand-written reference has at the full length and without draws.
        """
        each = [functools.partial(self._evaluate, one) for one in self.distributions]
        return jax.lax.switch(task.place, each, key, meta_params, task.key)

    def _evaluate(
        self,
        one: Distribution,
        key: jax.Array,
        meta_params: MetaParams,
        drawn: jax.Array,
    ) -> Evaluation:
        value, measured = self._train(one, key, meta_params, drawn)
        if one.bounds is not None:
            span = one.bounds.reference - one.bounds.random
            value = (value - one.bounds.random) / span
        measured = {"fitness": value, **measured}
        metrics = {f"{each.name}/{name}": jnp.float32(jnp.nan)
                   for each in self.distributions for name in measured}  # fmt: skip
        own = {f"{one.name}/{name}": jnp.float32(each) for name, each in measured.items()}
        return Evaluation(jnp.float32(value), {**metrics, **own})

    def _train(
        self,
        one: Distribution,
        key: jax.Array,
        meta_params: MetaParams,
        drawn: jax.Array,
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Train one agent with the settings that the raw key `drawn` draws in the task.

        Returns:
            its score, NaN if it diverged, and its measures.
        """
        task, values = one.task, _values(one, drawn)
        changes = sampling.of_prefix(values, sampling.HYPERPARAMS)
        hyperparams = one.hyperparams.replace(**changes)
        env_params = with_drawn(task.env_params, values)
        inputs = devices.as_inputs((hyperparams, meta_params, env_params))
        length, scale = updates_of(values), values.get(sampling.REWARD_SCALE, 1.0)
        more = {} if length is None else {"num_updates": length}
        result: Any = task.learner.train(key, *inputs, **more)
        sums = result.episodes
        sums = sums._replace(returns=sums.returns / scale, rewards=sums.rewards / scale)
        measured = measures(sums, length)
        finite = all_finite(task.learner.policy(result.state))
        return jnp.where(finite, fitness(self.fitness, measured), jnp.nan), measured


def bind(name: str, change: TaskDistribution, experiment: Experiment) -> Distribution:
    """Bind a learner to a named task, and check its distributions without compilation.

    `experiment` has the `change` of this task.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    where = f"tasks.{name}.sample"
    sample = sampling.read(change.sample, where)
    settings = experiment.settings
    env_name, env, env_params = experiment.environment
    config = TaskConfig(env_name, change.env_params)
    check_env_params(where, env, env_params, config, sample, settings.learner)
    check_hyperparams(where, settings, sample)
    if sampling.REWARD_SCALE in sample:
        env, env_params = ScaledRewards(env), ScaledParams(env_params)
    bound = experiment._replace(environment=(env_name, env, env_params), fixed={})
    example = jax.eval_shape(experiment.evolved.init, jax.random.key(0))
    task = bound.task({**experiment.fixed, **experiment.evolved.functions()}, example)
    most = task.learner.config.num_updates
    if (entry_of := sample.get(sampling.UPDATES)) is not None:
        ends = ranges.ends(entry_of)
        if min(ends) < 1 or max(ends) > most:
            raise ConfigError(
                f"{where}.{sampling.UPDATES} = {ends}: must be from 1 to {most}, the updates of "
                f"train.total_timesteps = {settings.train.total_timesteps}"
            )
    return Distribution(name, task, settings.hyperparams, sample)


def updates_of(values: Mapping[str, jax.Array]) -> jax.Array | None:
    """Return the drawn length of a training, [] int32; None if it is not drawn."""
    if sampling.UPDATES not in values:
        return None
    return jnp.round(values[sampling.UPDATES]).astype(jnp.int32)


def _values(one: Distribution, drawn: jax.Array) -> dict[str, jax.Array]:
    return sampling.draw_all(one.sample, jax.random.wrap_key_data(drawn))


def with_drawn(params: Any, values: Mapping[str, jax.Array]) -> EnvParams:
    """Return the parameters of an environment with the drawn values."""
    if isinstance(params, ScaledParams):
        inner = with_drawn(params.env, values)
        return params.replace(env=inner, scale=values[sampling.REWARD_SCALE])
    changes = {
        name: jnp.asarray(value, jnp.result_type(getattr(params, name)))
        for name, value in sampling.of_prefix(values, sampling.ENV_PARAMS).items()
    }
    return params.replace(**changes)


def check_env_params(
    where: str,
    env: Environment,
    params: EnvParams,
    task: TaskConfig,
    sample: Mapping[str, Entry],
    learner: str,
) -> None:
    """Check that the drawn parameters of an environment are traced, and in their range.

    `where` is the name of the section with the distributions.

    Raises:
        ConfigError: if a parameter is static, of another type, or out of its range.
    """
    for name, entry in sampling.of_prefix(sample, sampling.ENV_PARAMS).items():
        key = f"{where}.{sampling.ENV_PARAMS}{name}"
        for end in ranges.ends(entry):
            try:
                changed = TaskConfig(task.env, {**task.env_params, name: end})
                _, other, _ = make_environment(changed, learner)
            except ConfigError as error:
                raise ConfigError(f"{key} = {end}: {error}") from None
            if other is not env:
                raise ConfigError(
                    f"{key}: is static in {task.env}; give each value a task of its own"
                )
        if isinstance(getattr(params, name), int) and not _is_whole(entry):
            raise ConfigError(f"{key}: is a whole number; use integer, log_integer or choice")


def check_hyperparams(where: str, settings: Any, sample: Mapping[str, Entry]) -> None:
    """Raise `ConfigError` if a drawn hyperparameter is unknown or out of its range."""
    for name, entry in sampling.of_prefix(sample, sampling.HYPERPARAMS).items():
        for end in ranges.ends(entry):
            change = {"hyperparams": {name: end}}
            try:
                from_dict(type(settings), merge(to_dict(settings), change))
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from None


def _is_whole(entry: Entry) -> bool:
    if isinstance(entry, ranges.Choice):
        return all(isinstance(each, int) for each in entry.values)
    return isinstance(entry, IntDistribution)
