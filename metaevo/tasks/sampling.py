"""Distributions of traced settings of a training, the section `sample` of a task.

Every generation draws a value of each. The rules are the same as in a search space. A task inside
these ranges is not unseen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optuna.distributions import CategoricalDistribution, IntDistribution

from metaevo.config import ConfigError, PlainDict, PlainMapping, from_dict, show, to_dict
from metaevo.config.space import Entry, ends, free_space
from metaevo.tasks.task import Bound, Setup, Task, make_environment
from purerl.envs.scaled import ScaledParams, ScaledRewards
from purerl.types import EnvParams, MetaParams, TrainResult

ENV_PARAMS, HYPERPARAMS = "env_params.", "hyperparams."
"""Prefixes of the settings of an environment and of a learner."""
UPDATES, REWARD_SCALE = OWN = "updates", "reward_scale"
"""Names that are no settings."""


@dataclass(frozen=True)
class Sample:
    """Distributions of the settings of a task, by their names."""

    entries: Mapping[str, Entry]

    def values(self, key: jax.Array) -> dict[str, jax.Array]:
        """Return a number for each name."""
        keys = jax.random.split(key, len(self.entries))
        each = zip(self.entries.items(), keys, strict=True)
        return {name: draw(entry, own) for (name, entry), own in each}

    def longest(self, env_params: EnvParams) -> EnvParams:
        """Return environment parameters with the highest time limit that may be drawn."""
        entry = self.entries.get(f"{ENV_PARAMS}max_steps_in_episode")
        if entry is None:
            return env_params
        return _with_drawn(env_params, {f"{ENV_PARAMS}max_steps_in_episode": max(ends(entry))})

    def updates(self, key: jax.Array) -> jax.Array | None:
        """Return the drawn length of a training, [] int32; None if it is not drawn."""
        drawn = self.values(key).get(UPDATES)
        return None if drawn is None else jnp.round(drawn).astype(jnp.int32)

    def train(
        self, task: Bound, key: jax.Array, meta_params: MetaParams, drawn: jax.Array
    ) -> tuple[TrainResult, jax.Array | None]:
        """Train one agent on a task with values that the key `drawn` gives.

        Returns:
            the result, with rewards as the environment gave them, and the drawn length.
        """
        values, updates = self.values(drawn), self.updates(drawn)
        hyperparams = task.hyperparams.replace(**of_prefix(values, HYPERPARAMS))
        changed = task._replace(env_params=_with_drawn(task.env_params, values))
        length = {} if updates is None else {"num_updates": updates}
        result = changed.train(key, hyperparams, meta_params, **length)
        if (scale := values.get(REWARD_SCALE)) is not None:
            sums, evaluations = result.episodes, result.evaluations
            sums = sums._replace(returns=sums.returns / scale, rewards=sums.rewards / scale)
            evaluations = None if evaluations is None else evaluations / scale
            result = result.replace(episodes=sums, evaluations=evaluations)
        return result, updates


def sampled(setup: Setup, task: Task, where: str) -> tuple[Setup, Sample]:
    """Read and check the distributions of a task, without compilation.

    Returns:
        the setup with an environment that can scale rewards, if they are drawn.

    Raises:
        ConfigError: naming `where`, the section, and the key that does not fit.
    """
    entries = read(task.sample, where)
    _check_env_params(where, setup, task, entries)
    known = to_dict(setup.hyperparams)
    for name, entry in of_prefix(entries, HYPERPARAMS).items():
        for end in ends(entry):
            try:
                from_dict(type(setup.hyperparams), {**known, name: end})
            except ConfigError as error:
                raise ConfigError(f"{where}: hyperparams.{error}") from None
    most, limits = setup.train.num_updates, ends(entries[UPDATES]) if UPDATES in entries else [1]
    if min(limits) < 1 or max(limits) > most:
        raise ConfigError(
            f"{where}.{UPDATES} = {limits}: must be from 1 to {most}, the updates of "
            f"train.total_timesteps = {setup.train.total_timesteps}"
        )
    if REWARD_SCALE in entries:
        setup = replace(
            setup, env=ScaledRewards(setup.env), env_params=ScaledParams(setup.env_params)
        )
    return setup, Sample(entries)


def read(rules: PlainMapping, where: str) -> dict[str, Entry]:
    """Read the rules of a section `sample`, called `where` in error messages.

    Raises:
        ConfigError: for an unknown name, or for a rule that is no distribution over numbers.
    """
    for name in rules:
        if name not in OWN and not str(name).startswith((ENV_PARAMS, HYPERPARAMS)):
            allowed = ", ".join([f"{ENV_PARAMS}NAME", f"{HYPERPARAMS}NAME", *OWN])
            raise ConfigError(f"{where}: {show(name)} cannot be sampled; allowed: {allowed}")
    try:
        entries = free_space(rules)
    except ConfigError as error:
        raise ConfigError(str(error).replace("space", where, 1)) from None
    for name, entry in entries.items():
        limits = ends(entry)
        if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in limits):
            raise ConfigError(f"{where}.{name} = {show(limits)}: must be numbers")
        if name in OWN and min(limits) <= 0:
            raise ConfigError(f"{where}.{name} = {show(limits)}: must be positive")
    return entries


def draw(entry: Entry, key: jax.Array) -> jax.Array:
    """Return one number of a distribution, float32, or int32 where all are whole numbers."""
    if isinstance(entry, CategoricalDistribution):
        values = jnp.asarray(entry.choices, jnp.int32 if _is_whole(entry) else jnp.float32)
        return values[jax.random.randint(key, (), 0, len(values))]
    if not isinstance(entry, IntDistribution):
        if not entry.log:
            return jax.random.uniform(key, minval=entry.low, maxval=entry.high)
        low, high = np.log([entry.low, entry.high])
        return jnp.exp(jax.random.uniform(key, minval=low, maxval=high))
    if not entry.log:
        count = (entry.high - entry.low) // entry.step + 1
        return entry.low + entry.step * jax.random.randint(key, (), 0, count)
    # Every whole number has the share of its logarithmic interval.
    low, high = np.log([entry.low - 0.5, entry.high + 0.5])
    drawn = jnp.round(jnp.exp(jax.random.uniform(key, minval=low, maxval=high)))
    return jnp.clip(drawn, entry.low, entry.high).astype(jnp.int32)


def of_prefix(values: Mapping[str, Any], prefix: str) -> PlainDict:
    """Return the values whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def _with_drawn(params: Any, values: Mapping[str, jax.Array]) -> EnvParams:
    if isinstance(params, ScaledParams):
        inner = _with_drawn(params.env, values)
        return params.replace(env=inner, scale=values.get(REWARD_SCALE, params.scale))
    changes = {
        name: jnp.asarray(value, jnp.result_type(getattr(params, name)))
        for name, value in of_prefix(values, ENV_PARAMS).items()
    }
    return params.replace(**changes)


def _check_env_params(where: str, setup: Setup, task: Task, entries: Mapping[str, Entry]) -> None:
    """Check that the drawn parameters of an environment are traced, and in their range."""
    for name, entry in of_prefix(entries, ENV_PARAMS).items():
        key = f"{where}.{ENV_PARAMS}{name}"
        for end in ends(entry):
            changed = replace(task, env_params={**task.env_params, name: end})
            try:
                _, other, _ = make_environment(changed, setup.learner)
            except ConfigError as error:
                raise ConfigError(f"{key} = {end}: {error}") from None
            if other is not setup.env:
                raise ConfigError(
                    f"{key}: is static in {task.env}; give each value a task of its own"
                )
        if isinstance(getattr(setup.env_params, name), int) and not _is_whole(entry):
            raise ConfigError(f"{key}: is a whole number; use integer, log_integer or choice")


def _is_whole(entry: Entry) -> bool:
    if isinstance(entry, CategoricalDistribution):
        return all(isinstance(each, int) for each in entry.choices)
    return isinstance(entry, IntDistribution)
