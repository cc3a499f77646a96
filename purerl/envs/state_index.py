"""An adapter that gives tabular learners the number of the state that the agent is in."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

Index = Callable[[jax.Array], jax.Array]
"""From an observation to the number of its state, int32."""


class StateIndex(Environment):
    """Observations as state numbers 0 .. num_states - 1; all else is the wrapped environment's.

    Example, with an index of one's own:
        >>> env, env_params = envs.make("FourRooms-misc", observations="raw")
        >>> env = StateIndex(env, 13 * 13, lambda obs: 13 * obs[0] + obs[1])
    """

    def __init__(self, env: Environment, num_states: int, index: Index):
        """Wrap `env`; states of the same number are the same to the agent."""
        super().__init__()
        self.env = env
        self.num_states = num_states
        self.index = index

    @property
    def name(self) -> str:
        """The wrapped environment's name."""
        return self.env.name

    @property
    def default_params(self) -> Any:
        """The wrapped environment's default parameters."""
        return self.env.default_params

    @property
    def num_actions(self) -> int:
        """The wrapped environment's number of actions."""
        return self.env.num_actions

    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> tuple:
        """Step and reset after an episode's end, see gymnax; some environments have their own."""
        params = self.default_params if params is None else params
        obs, state, reward, terminated, truncated, info = self.env.step(key, state, action, params)
        info = {**info, "final_observation": self._index(info["final_observation"])}
        return self._index(obs), state, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        """Reset, see gymnax."""
        obs, state = self.env.reset_env(key, params)
        return self._index(obs), state

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> tuple:
        """Step without a reset, see gymnax."""
        obs, state, reward, terminated, info = self.env.step_env(key, state, action, params)
        return self._index(obs), state, reward, terminated, info

    def is_truncated(self, state: Any, params: Any) -> jax.Array:
        """Whether the time limit is reached."""
        return self.env.is_truncated(state, params)

    def is_terminated(self, state: Any, params: Any) -> jax.Array:
        """Whether the state is terminal."""
        return self.env.is_terminated(state, params)

    def action_space(self, params: Any = None) -> Any:
        """The wrapped environment's action space."""
        return self.env.action_space(params)

    def state_space(self, params: Any) -> Any:
        """The wrapped environment's state space."""
        return self.env.state_space(params)

    def observation_space(self, params: Any) -> spaces.Discrete:
        """The numbers of the states."""
        del params
        return spaces.Discrete(self.num_states)

    def _index(self, obs: jax.Array) -> jax.Array:
        return jnp.clip(self.index(obs).astype(jnp.int32), 0, self.num_states - 1)


def _cell(obs: jax.Array) -> jax.Array:
    """The number of the only cell that is set; 0 where none is (past the bottom of DeepSea)."""
    return jnp.argmax(obs.ravel())


def _agent_cell(obs: jax.Array) -> jax.Array:
    """The agent's cell in one-hot planes [rows, columns, (empty, agent, wall, goal)]."""
    return jnp.argmax(obs[..., 1].ravel())


def _four_rooms_cell(obs: jax.Array) -> jax.Array:
    return 13 * obs[0] + obs[1]  # row, column; the rest is the goal's place


_KNOWN: dict[str, tuple[Callable[[tuple[int, ...]], int], Index]] = {
    "DeepSea-bsuite": (lambda shape: shape[0] * shape[1], _cell),
    "Doors": (lambda shape: shape[0] * shape[1], _agent_cell),
    "FourRooms-misc": (lambda shape: 13 * 13, _four_rooms_cell),
}
"""Environments whose observations tell a state's number: number of states, and the index."""


def with_state_index(env: Environment, params: Any) -> Environment:
    """Return an environment whose observations are state numbers.

    Raises:
        ValueError: if none is known for the environment.
    """
    space = env.observation_space(params)
    if isinstance(space, spaces.Discrete):
        return env
    if env.name not in _KNOWN:
        raise ValueError(
            f"{env.name} has no state index: its observations are vectors of shape "
            f"{tuple(space.shape)}; tabular learners need GridWorld, FrozenLake-misc, "
            f"{', '.join(_KNOWN)}, or purerl.envs.StateIndex"
        )
    count, index = _KNOWN[env.name]
    return StateIndex(env, count(space.shape), index)
