"""Adapter from environments of this package to Gymnasium's interface."""

from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnax.environments import spaces

from purerl.envs import registry
from purerl.envs.render import renderer
from purerl.types import Environment, EnvParams


class GymnasiumEnv(gymnasium.Env):
    """One gymnax environment with Gymnasium's interface.

    Randomness comes from the seed of `reset`. There are no automatic resets. With
    `render_mode="rgb_array"`, `render` returns a picture if the environment can draw one.

    Args:
        env: an environment with gymnax's 1.x interface, wrapped or not.
        env_params: parameters of the environment; None for its defaults.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if a space or the render mode is not supported.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self, env: Environment, env_params: EnvParams = None, render_mode: str | None = None
    ):
        self.jax_env = env
        self.env_params = env.default_params if env_params is None else env_params
        self._draw = renderer(env)
        if self._draw is None:
            self.metadata = {**self.metadata, "render_modes": []}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"{env.name} has no render mode {render_mode!r}")
        self.render_mode = render_mode
        self.observation_space = _converted(env.observation_space(self.env_params))
        self.action_space = _converted(env.action_space(self.env_params))
        self._key: Any = None
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; there are no options or info."""
        super().reset(seed=seed)
        if seed is not None or self._key is None:  # without a seed, the stream of keys continues
            self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, obs, self._state = _reset(self.jax_env, self._key, self.env_params)
        return self._observation(obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step; see Gymnasium.

        Raises:
            ValueError: before the first reset.
        """
        if self._state is None:
            raise ValueError("reset must be called before step")
        action = np.asarray(action, self.action_space.dtype)
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            action = action.astype(np.int32)
        self._key, obs, self._state, reward, *flags, info = _step(
            self.jax_env, self._key, self._state, action, self.env_params
        )
        terminated, truncated = (bool(flag) for flag in flags)
        info = {name: np.asarray(value) for name, value in info.items()}
        return self._observation(obs), float(reward), terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """Return a picture of the state, uint8 [height, width, 3], if `render_mode` is set."""
        if self.render_mode is None or self._draw is None or self._state is None:
            return None
        return self._draw(self._state, self.env_params)

    def _observation(self, obs: Any) -> Any:
        if isinstance(self.observation_space, gymnasium.spaces.Discrete):
            return int(obs)
        return np.asarray(obs, self.observation_space.dtype)


def make(name: str, render_mode: str | None = None, **overrides: Any) -> GymnasiumEnv:
    """Build an environment of this package for `gymnasium.make`, see `purerl.envs.make`.

    Observations are raw by default.
    """
    env, env_params = registry.make(name, **{"observations": "raw", **overrides})
    return GymnasiumEnv(env, env_params, render_mode)


# Compiled once per environment object, which `purerl.envs.make` shares.
@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: jax.Array, params: Any) -> tuple[jax.Array, Any, Any]:
    key, reset_key = jax.random.split(key)
    return key, *env.reset_env(reset_key, params)


@partial(jax.jit, static_argnums=0)
def _step(env: Environment, key: jax.Array, state: Any, action: Any, params: Any) -> tuple:
    key, step_key = jax.random.split(key)
    obs, state, reward, terminated, info = env.step_env(step_key, state, action, params)
    return key, obs, state, reward, terminated, env.is_truncated(state, params), info


def _converted(space: Any) -> gymnasium.spaces.Space:
    if isinstance(space, spaces.Discrete):
        return gymnasium.spaces.Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        dtype = np.dtype(space.dtype)
        low, high = (
            np.broadcast_to(np.asarray(bound, dtype), space.shape)
            for bound in (space.low, space.high)
        )
        return gymnasium.spaces.Box(low, high, tuple(space.shape), dtype.type)
    raise ValueError(f"no conversion to Gymnasium for a space of type {type(space).__name__}")
