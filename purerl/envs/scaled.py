"""An adapter that multiplies rewards by a traced factor, to vary their scale between trainings."""

import jax
from flax import struct

from purerl.envs.adapter import Parameterised
from purerl.types import EnvParams


class ScaledParams(struct.PyTreeNode):
    """Parameters of an environment with scaled rewards. Traced."""

    env: EnvParams
    """parameters of the environment"""
    scale: jax.Array | float = 1.0
    """factor on rewards"""


class ScaledRewards(Parameterised):
    """Rewards times a factor; observations, states and actions are unchanged.

    Returns and rewards that a learner reports are scaled, too.

    Example:
        >>> env, env_params = envs.make("CartPole-v1")
        >>> env, env_params = ScaledRewards(env), ScaledParams(env_params, scale=0.1)
    """

    @property
    def default_params(self) -> ScaledParams:
        """Default parameters of the wrapped environment, with a factor of 1."""
        return ScaledParams(self.env.default_params)

    def rewarded(self, reward: jax.Array, params: ScaledParams) -> jax.Array:
        """Return the scaled reward."""
        return reward * params.scale
