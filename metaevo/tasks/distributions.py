"""Tasks with distributions of traced settings, of which every generation draws values."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from optuna.distributions import CategoricalDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.config.space import Entry, ends
from metaevo.tasks import sampling
from metaevo.tasks.binding import Experiment, TaskConfig, make_environment
from metaevo.tasks.bound import Bound
from metaevo.tasks.task import Task
from purerl.envs.scaled import ScaledParams, ScaledRewards
from purerl.types import Environment, EnvParams


def bind(name: str, task: Task, experiment: Experiment) -> Bound:
    """Bind a learner to a named task, and check its distributions without compilation.

    `experiment` has the settings of this task.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    where = f"tasks.{name}.sample"
    sample = sampling.read(task.sample, where)
    settings = experiment.settings
    env_name, env, env_params = experiment.environment
    config = TaskConfig(env_name, task.env_params)
    check_env_params(where, env, env_params, config, sample, settings.learner)
    check_hyperparams(where, settings, sample)
    if sampling.REWARD_SCALE in sample:
        env, env_params = ScaledRewards(env), ScaledParams(env_params)
    bound = experiment._replace(environment=(env_name, env, env_params), fixed={})
    example = jax.eval_shape(experiment.evolved.init, jax.random.key(0))
    found = bound.task({**experiment.fixed, **experiment.evolved.functions()}, example)
    most = found.learner.config.num_updates
    if (entry_of := sample.get(sampling.UPDATES)) is not None:
        limits = ends(entry_of)
        if min(limits) < 1 or max(limits) > most:
            raise ConfigError(
                f"{where}.{sampling.UPDATES} = {limits}: must be from 1 to {most}, the updates of "
                f"train.total_timesteps = {settings.train.total_timesteps}"
            )
    return found._replace(name=name, hyperparams=settings.hyperparams, sample=sample)


def updates_of(values: Mapping[str, jax.Array]) -> jax.Array | None:
    """Return the drawn length of a training, [] int32; None if it is not drawn."""
    if sampling.UPDATES not in values:
        return None
    return jnp.round(values[sampling.UPDATES]).astype(jnp.int32)


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
        for end in ends(entry):
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
        for end in ends(entry):
            hyperparams = settings.hyperparams
            try:
                from_dict(type(hyperparams), {**to_dict(hyperparams), name: end})
            except ConfigError as error:
                raise ConfigError(f"{where}: hyperparams.{error}") from None


def _is_whole(entry: Entry) -> bool:
    if isinstance(entry, CategoricalDistribution):
        return all(isinstance(each, int) for each in entry.choices)
    return isinstance(entry, IntDistribution)
