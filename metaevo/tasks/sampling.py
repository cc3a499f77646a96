"""Distributions of traced settings of a training: `sample` in a named task.

    sample:
      env_params.length: {uniform: [0.3, 1.0]}
      hyperparams.gamma: {choice: [0.95, 0.99]}
      updates: {log_uniform: [16, 128]}         # length of training
      reward_scale: {log_uniform: [0.1, 10]}

The rules are the same as in a search space.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optuna.distributions import CategoricalDistribution, IntDistribution

from metaevo.config import ConfigError, show
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.config.space import Entry, ends, free_space

ENV_PARAMS, HYPERPARAMS = "env_params.", "hyperparams."
"""Prefixes of the settings of an environment and of a learner."""
UPDATES, REWARD_SCALE = OWN = "updates", "reward_scale"
"""Names that are no settings."""


def read(rules: PlainMapping, where: str) -> dict[str, Entry]:
    """Read the rules of a section `sample`, called `where` in error messages.

    Raises:
        ConfigError: for an unknown name, or for a rule that is no distribution over numbers.
    """
    if not rules:
        return {}
    for name in rules:
        if name not in OWN and not str(name).startswith((ENV_PARAMS, HYPERPARAMS)):
            allowed = ", ".join([f"{ENV_PARAMS}NAME", f"{HYPERPARAMS}NAME", *OWN])
            raise ConfigError(f"{where}: {show(name)} cannot be sampled; allowed: {allowed}")
    try:
        entries = free_space(rules).entries
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
        whole = all(isinstance(each, int) for each in entry.choices)
        values = jnp.asarray(entry.choices, jnp.int32 if whole else jnp.float32)
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


def draw_all(sample: Mapping[str, Entry], key: jax.Array) -> dict[str, jax.Array]:
    """Return a number for each name."""
    keys = jax.random.split(key, max(1, len(sample)))
    return {
        name: draw(entry, each) for (name, entry), each in zip(sample.items(), keys, strict=False)
    }


def of_prefix(values: Mapping[str, Any], prefix: str) -> PlainDict:
    """Return the values whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def contains(entry: Entry, value: float) -> bool:
    """Return whether a number may be drawn."""
    if isinstance(entry, CategoricalDistribution):
        return value in entry.choices
    return bool(entry.low <= value <= entry.high)
