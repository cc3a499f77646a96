"""gymnax's environments as they were before version 1: a step returned five values."""

from typing import Any

import jax
import jax.numpy as jnp


class FiveValues:
    """An environment whose `step` returns `obs, state, reward, done, info`."""

    def __init__(self, env: Any):
        """Wrap `env`."""
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # not there yet, while it is being copied
            raise AttributeError(name)
        return getattr(self._env, name)

    def step(self, key: jax.Array, state: Any, action: Any, params: Any) -> tuple:
        """Step, with termination and truncation in one flag."""
        obs, state, reward, terminated, truncated, info = self._env.step(key, state, action, params)
        return obs, state, reward, jnp.logical_or(terminated, truncated), info
