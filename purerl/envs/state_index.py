"""An adapter that gives tabular learners the number of the state that the agent is in."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.adapter import Adapter
from purerl.types import PyTree

Index = Callable[[jax.Array], jax.Array]
"""From an observation to the number of its state, int32."""


class StateIndex(Adapter):
    """Observations as state numbers 0 .. num_states - 1; all else is the wrapped environment's.

    Example with a custom index:
        >>> env, env_params = envs.make("FourRooms-misc", observations="raw")
        >>> env = StateIndex(env, 13 * 13, lambda obs: 13 * obs[0] + obs[1])
    """

    def __init__(self, env: Environment, num_states: int, index: Index):
        """Wrap `env`; the agent cannot distinguish states with the same number."""
        super().__init__(env)
        self.num_states = num_states
        self.index = index

    def observation_space(self, params: PyTree) -> spaces.Discrete:
        """Return the space of state numbers."""
        return spaces.Discrete(self.num_states)

    def observe(self, obs: jax.Array, params: PyTree) -> jax.Array:
        """Return the number of the state."""
        return jnp.clip(self.index(obs).astype(jnp.int32), 0, self.num_states - 1)


_KNOWN: dict[str, tuple[Callable[[tuple[int, ...]], int], Index]] = {
    # the only set cell; 0 if no cell is set, past the bottom
    "DeepSea-bsuite": (lambda shape: shape[0] * shape[1], lambda obs: jnp.argmax(obs.ravel())),
    # row, column; the rest is the goal's position
    "FourRooms-misc": (lambda shape: 13 * 13, lambda obs: 13 * obs[0] + obs[1]),
}
"""Environments with numbered states: the number of states, and the index of an observation."""


def with_state_index(env: Environment, params: PyTree) -> Environment:
    """Return an environment with state numbers as observations.

    Raises:
        ValueError: if no index is known for the environment.
    """
    space = env.observation_space(params)
    if isinstance(space, spaces.Discrete):
        return env
    if env.name not in _KNOWN:
        raise ValueError(
            f"{env.name} has no state index: its observations are not discrete; tabular learners "
            f"need GridWorld, FrozenLake-misc, {', '.join(_KNOWN)}, or purerl.envs.StateIndex"
        )
    count, index = _KNOWN[env.name]
    return StateIndex(env, count(space.shape), index)
