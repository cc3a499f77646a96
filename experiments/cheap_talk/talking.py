"""An adapter that appends messages to observations: cheap talk (Lu et al. 2023)."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from experiments.cheap_talk.channels import Channel
from purerl.envs.adapter import Parameterised
from purerl.types import EnvParams


class TalkParams(struct.PyTreeNode):
    """Parameters of an environment with a channel. Traced."""

    env: EnvParams
    """parameters of the environment"""
    channel: Any
    """parameters of the channel"""
    scale: jax.Array | float = 1.0
    """factor on messages"""


class Talking(Parameterised):
    """Observations with a message appended; states, rewards and actions are unchanged.

    A message is a function of the observation alone, so it adds no information to the observation.

    Example:
        >>> env, env_params = envs.make("CartPole-v1")
        >>> env = Talking(env, lambda meta_params, obs: jnp.tanh(obs[:2] @ meta_params), width=2)
        >>> env_params = TalkParams(env_params, jnp.eye(2), scale=2 * jnp.pi)
    """

    def __init__(self, env: Environment, channel: Channel, width: int):
        """Wrap `env`.

        Args:
            env: environment with vector observations.
            channel: function that computes the messages.
            width: length of a message.

        Raises:
            ValueError: if the width is below 1, or observations are not vectors.
        """
        super().__init__(env)
        if width < 1:
            raise ValueError(f"width = {width}: a message must have at least 1 number")
        shape = tuple(env.observation_space(env.default_params).shape)
        if len(shape) != 1:
            seen = f"images of shape {shape}" if shape else "state numbers"
            raise ValueError(
                f"{env.name}: its observations are {seen}, but a message is appended to a vector"
            )
        self.channel, self.width = channel, width

    @property
    def default_params(self) -> TalkParams:
        """Default parameters of the wrapped environment, with a channel without parameters."""
        return TalkParams(self.env.default_params, None)

    def observation_space(self, params: TalkParams) -> spaces.Box:
        """Return the space of observations with the message appended."""
        (size,) = self.env.observation_space(params.env).shape
        return spaces.Box(-jnp.inf, jnp.inf, (size + self.width,), jnp.float32)

    def observe(self, obs: jax.Array, params: TalkParams) -> jax.Array:
        """Return the observation with its message."""
        message = params.scale * self.channel(params.channel, obs)
        return jnp.concatenate([obs, message.astype(obs.dtype)])
