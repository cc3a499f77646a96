"""Smaller networks for a learned part: components of the same kind, with fewer hidden units.

Like formulas, they are fitted to its recorded outputs during training. Several random starts are
optimized, and the network with the smallest unexplained variance is kept.
"""

import dataclasses
import typing
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.distillation import fit
from metaevo.components.parts import Part
from metaevo.config import ConfigError
from metaevo.discovery.records import Records
from metaevo.discovery.targets import Target
from purerl.types import MetaParams

UNITS = 2, 4
"""Units of the hidden layer; sizes without fewer parameters than the component are skipped."""
STEPS = 6_000
"""Steps of gradient descent."""
STARTS = 6
BATCH = 512
"""Samples in a gradient step."""


class Network(NamedTuple):
    """A component of the same kind as the learned part."""

    part: Part
    meta_params: MetaParams
    units: int
    """units of its hidden layer"""
    error: float
    """the fraction of the target's variance that it does not explain"""

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.meta_params))


def smaller(part: Part) -> dict[int, Part]:
    """Return components like the learned part with fewer units, by their number.

    Raises:
        ConfigError: if its settings have no `hidden_sizes` or `hidden_size`, or it is as small.
    """
    config, found = part.config, {}
    known = {field.name for field in dataclasses.fields(config)}
    if not known & {"hidden_sizes", "hidden_size"}:
        raise ConfigError(
            f"--into network: {part.name} has no hidden_sizes or hidden_size that could be smaller"
        )
    before = _numbers(part)
    for units in UNITS:
        sizes = {"hidden_sizes": (units,)} if "hidden_sizes" in known else {"hidden_size": units}
        own = dataclasses.replace(config, **sizes)
        if "random" in typing.get_args(typing.get_type_hints(type(config)).get("start")):
            own = dataclasses.replace(own, start="random")  # it is fitted in any case
        small = part._replace(config=own, component=part.module.make(own))
        if _numbers(small) < before:
            found[units] = small
    if not found:
        raise ConfigError(
            f"--into network: {part.name} has {before} numbers, and with {UNITS[0]} units no fewer"
        )
    return found


def fitted(part: Part, units: int, target: Target, records: Records, *, seed: int) -> Network:
    """Return a component of so many units with meta-parameters fitted to the recorded outputs."""
    value = jax.vmap(target.value_of(part), in_axes=(None, 0, 0))
    given = jax.tree.map(jnp.asarray, records)
    variance = jnp.maximum(jnp.var(given.wanted), 1e-30)

    def unexplained(meta_params, some):
        left = value(meta_params, some.scalars, some.contexts) - some.wanted
        return jnp.mean(jnp.square(left)) / variance

    def distance(meta_params, key):
        at = jax.random.randint(key, (BATCH,), 0, len(given.wanted))
        return unexplained(meta_params, jax.tree.map(lambda leaf: leaf[at], given))

    @jax.jit
    def descended(key):
        init_key, fit_key = jax.random.split(key)
        meta_params = fit(distance, part.component.init(init_key), fit_key, STEPS)
        return meta_params, unexplained(meta_params, given)

    keys = jax.random.split(jax.random.key(seed), STARTS)
    found = [descended(key) for key in keys]
    meta_params, error = min(found, key=lambda each: float(jnp.nan_to_num(each[1], nan=jnp.inf)))
    return Network(part, jax.device_get(meta_params), units, float(error))


def _numbers(part: Part) -> int:
    shapes = jax.eval_shape(part.component.init, jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))
