"""An adapter that gives learners observations they can feed to a network."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from gymnax.environments import spaces
from gymnax.environments.environment import Environment


class Features(Environment):
    """Observations as float32 vectors or images; all else is the wrapped environment's."""

    def __init__(self, env: Environment, *, flat: bool):
        """Wrap `env`; `flat` turns images into vectors as well."""
        super().__init__()
        self.env = env
        self.flat = flat

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
        final_obs = self._features(info["final_observation"], params)
        info = {**info, "final_observation": final_obs}
        return self._features(obs, params), state, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        """Reset, see gymnax."""
        obs, state = self.env.reset_env(key, params)
        return self._features(obs, params), state

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> tuple:
        """Step without a reset, see gymnax."""
        obs, state, reward, terminated, info = self.env.step_env(key, state, action, params)
        return self._features(obs, params), state, reward, terminated, info

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

    def observation_space(self, params: Any) -> spaces.Box:
        """A box of the shape that `reset` and `step` return."""
        space = self.env.observation_space(params)
        if isinstance(space, spaces.Discrete):
            return spaces.Box(0.0, 1.0, (space.n,), jnp.float32)
        shape = space.shape
        if len(shape) != 3 or self.flat:
            shape = (math.prod(shape),)
        return spaces.Box(-jnp.inf, jnp.inf, shape, jnp.float32)

    def _features(self, obs: jax.Array, params: Any) -> jax.Array:
        space = self.env.observation_space(params)
        if isinstance(space, spaces.Discrete):
            return jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
        return obs.astype(jnp.float32).reshape(self.observation_space(params).shape)
