"""An adapter that turns nested observations (dicts and tuples) into vectors."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.adapter import Adapter
from purerl.types import PyTree


class Flattened(Adapter):
    """Nested observations as one float32 vector; all else is the wrapped environment's.

    The parts are concatenated: those of a dict sorted by key, those of a tuple in their order.
    Discrete parts are one-hot, boxes are raveled. It is the order of `gymnasium.spaces.flatten`.
    """

    def observation_space(self, params: PyTree) -> spaces.Box:
        """Return the space of vectors."""
        size = sum(map(_size, _leaves(self.env.observation_space(params))))
        return spaces.Box(-jnp.inf, jnp.inf, (size,), jnp.float32)

    def observe(self, obs: PyTree, params: PyTree) -> jax.Array:
        """Return the vector."""
        return _flat(self.env.observation_space(params), obs)

    def restored(self, obs: jax.Array, params: PyTree) -> Any:
        """Return nested observations of vectors [..., size]; discrete parts stay one-hot.

        Raises:
            ValueError: if the vectors have another size.
        """
        space, (size,) = self.env.observation_space(params), self.observation_space(params).shape
        if obs.shape[-1] != size:
            raise ValueError(f"observations of {obs.shape[-1]} numbers: {self.name} has {size}")
        return _nested(space, obs)


def without_nesting(env: Environment, params: PyTree) -> Environment:
    """Return the environment itself, or with vectors as observations if they are nested.

    Raises:
        ValueError: if a part of an observation is in another space.
    """
    space = env.observation_space(params)
    if hasattr(space, "shape") and hasattr(space, "dtype"):
        return env
    for leaf in _leaves(space):
        if not isinstance(leaf, spaces.Box | spaces.Discrete):
            kind = type(leaf)
            raise ValueError(
                f"observations in a {kind.__module__}.{kind.__name__} are not supported: allowed "
                "are gymnax's Box and Discrete, and Dict and Tuple of them"
            )
    return Flattened(env)


def _parts(space: Any) -> list[tuple[Any, Any]]:
    """Return the keys and spaces of a dict or a tuple in the order of the vector."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    return list(enumerate(space.spaces))


def _leaves(space: Any) -> list[Any]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [space]
    return [leaf for _, part in _parts(space) for leaf in _leaves(part)]


def _size(leaf: Any) -> int:
    return int(leaf.n) if isinstance(leaf, spaces.Discrete) else math.prod(leaf.shape)


def _flat(space: Any, obs: PyTree) -> jax.Array:
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
    if isinstance(space, spaces.Box):
        return jnp.ravel(obs).astype(jnp.float32)
    return jnp.concatenate([_flat(part, obs[key]) for key, part in _parts(space)])


def _nested(space: Any, vectors: jax.Array) -> PyTree:
    """Return the inverse of `_flat` for vectors [..., size], with discrete parts one-hot."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        shape = (space.n,) if isinstance(space, spaces.Discrete) else space.shape
        return vectors.reshape(*vectors.shape[:-1], *shape)
    parts = _parts(space)
    ends = np.cumsum([sum(map(_size, _leaves(part))) for _, part in parts])
    pieces = jnp.split(vectors, ends[:-1].tolist(), axis=-1)
    found = {key: _nested(part, each) for (key, part), each in zip(parts, pieces, strict=True)}
    return found if isinstance(space, spaces.Dict) else tuple(found.values())
