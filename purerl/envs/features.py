"""An adapter that gives learners observations they can feed to a network."""

import jax
import jax.numpy as jnp
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.adapter import Adapter
from purerl.types import PyTree


class Features(Adapter):
    """Observations as float32 vectors or images; all else is the wrapped environment's."""

    def __init__(self, env: Environment, *, flat: bool):
        """Wrap `env`; `flat` turns images into vectors as well."""
        super().__init__(env)
        self.flat = flat

    def observation_space(self, params: PyTree) -> spaces.Box:
        """A box of the shape that `reset` and `step` return."""
        space = self.env.observation_space(params)
        example = jax.ShapeDtypeStruct(space.shape, space.dtype)
        shape = jax.eval_shape(lambda obs: self.observe(obs, params), example).shape
        low, high = (0.0, 1.0) if isinstance(space, spaces.Discrete) else (-jnp.inf, jnp.inf)
        return spaces.Box(low, high, shape, jnp.float32)

    def observe(self, obs: jax.Array, params: PyTree) -> jax.Array:
        """Return a vector or an image of float32; numbers and symbols become one-hot vectors."""
        space = self.env.observation_space(params)
        if isinstance(space, spaces.Discrete):
            return jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
        planes = getattr(self.env, "planes", None)
        if planes:
            channels = [
                jax.nn.one_hot(obs[..., channel], count, dtype=jnp.float32)
                for channel, count in enumerate(planes)
            ]
            obs = jnp.concatenate(channels, axis=-1)
        obs = obs.astype(jnp.float32)
        return obs if obs.ndim == 3 and not self.flat else obs.ravel()
