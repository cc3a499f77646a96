"""An adapter that gives learners observations they can feed to a network."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.adapter import Adapter
from purerl.types import PyTree


class Features(Adapter):
    """Observations as float32 vectors or images; all else is the wrapped environment's.

    Numbers and symbols become one-hot. The parts of nested observations are concatenated: those of
    a dict sorted by key, those of a tuple in their order, as in `gymnasium.spaces.flatten`.
    """

    def __init__(self, env: Environment, *, flat: bool):
        """Wrap `env`; `flat` turns images into vectors as well."""
        super().__init__(env)
        self.flat = flat

    def observation_space(self, params: PyTree) -> spaces.Box:
        """A box of the shape that `reset` and `step` return."""
        space = self.env.observation_space(params)
        example = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree(space)
        )
        shape = jax.eval_shape(lambda obs: self.observe(obs, params), example).shape
        low, high = (0.0, 1.0) if isinstance(space, spaces.Discrete) else (-jnp.inf, jnp.inf)
        return spaces.Box(low, high, shape, jnp.float32)

    def observe(self, obs: PyTree, params: PyTree) -> jax.Array:
        """Return a vector or an image of float32."""
        space = self.env.observation_space(params)
        if is_nested(space):
            return jnp.concatenate([_one_hot(*part).ravel() for part in _parts(space, obs)])
        if planes := getattr(self.env, "planes", None):
            parts = [jax.nn.one_hot(obs[..., i], count) for i, count in enumerate(planes)]
            obs = jnp.concatenate(parts, axis=-1)
        obs = _one_hot(space, obs)
        return obs if obs.ndim == 3 and not self.flat else obs.ravel()

    def restored(self, obs: jax.Array, params: PyTree) -> Any:
        """Return nested observations of vectors [..., size]; discrete parts stay one-hot.

        Raises:
            ValueError: if the vectors have another size.
        """
        space = self.env.observation_space(params)
        if not is_nested(space):
            return super().restored(obs, params)
        leaves, structure = jax.tree.flatten(tree(space))
        shapes = [(leaf.n,) if isinstance(leaf, spaces.Discrete) else leaf.shape for leaf in leaves]
        *ends, size = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        if obs.shape[-1] != size:
            raise ValueError(f"observations of {obs.shape[-1]} numbers: {self.name} has {size}")
        parts = zip(jnp.split(obs, ends, axis=-1), shapes, strict=True)
        shaped = [part.reshape(*obs.shape[:-1], *shape) for part, shape in parts]
        return jax.tree.unflatten(structure, shaped)


def is_nested(space: Any) -> bool:
    """Return whether observations in a space are dicts or tuples."""
    return isinstance(space, spaces.Dict | spaces.Tuple)


def tree(space: Any) -> PyTree:
    """Return a space with its dicts and tuples as Python's."""
    if isinstance(space, spaces.Dict):
        return {key: tree(part) for key, part in space.spaces.items()}
    return tuple(map(tree, space.spaces)) if isinstance(space, spaces.Tuple) else space


def _parts(space: Any, obs: PyTree) -> Iterator[tuple[Any, jax.Array]]:
    """Yield the spaces without parts, and what an observation has in them."""
    if not is_nested(space):
        yield space, obs
        return
    keys = sorted(space.spaces) if isinstance(space, spaces.Dict) else range(len(space.spaces))
    for key in keys:
        yield from _parts(space.spaces[key], obs[key])


def _one_hot(space: Any, obs: jax.Array) -> jax.Array:
    """Return float32 numbers, one-hot if the space is discrete."""
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
    return jnp.asarray(obs, jnp.float32)
