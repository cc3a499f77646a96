"""Base class of adapters that change what a learner sees of an environment."""

from typing import Any

import jax
from gymnax.environments.environment import Environment

from purerl.types import PyTree


class Adapter(Environment):
    """The wrapped environment as it is; subclasses override what they change."""

    def __init__(self, env: Environment):
        super().__init__()
        self.env = env

    def observe(self, obs: jax.Array, params: PyTree) -> jax.Array:
        """Return the observation that replaces `obs`."""
        return obs

    def rewarded(self, reward: jax.Array, params: PyTree) -> jax.Array:
        """Return the reward that replaces `reward`."""
        return reward

    def restored(self, obs: jax.Array, params: PyTree) -> Any:
        """Return observations [..., *obs_shape] as the innermost environment shows them.

        Only nested observations, of which learners see vectors, are changed.
        """
        inner = getattr(self.env, "restored", None)
        return obs if inner is None else inner(obs, self.inner(params))

    def inner(self, params: PyTree) -> Any:
        """Return the wrapped environment's part of the parameters, by default all."""
        return params

    def with_inner(self, params: PyTree, inner: PyTree) -> Any:
        """Return parameters with others of the wrapped environment, which are all by default."""
        return inner

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

    def step(
        self, key: jax.Array, state: PyTree, action: jax.Array, params: PyTree = None
    ) -> tuple:
        """Step and reset after an episode's end, see gymnax; some environments have their own."""
        params = self.default_params if params is None else params
        obs, state, reward, terminated, truncated, info = self.env.step(
            key, state, action, self.inner(params)
        )
        final_obs = self.observe(info["final_observation"], params)
        info = {**info, "final_observation": final_obs}
        obs, reward = self.observe(obs, params), self.rewarded(reward, params)
        return obs, state, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, Any]:
        """Reset, see gymnax."""
        obs, state = self.env.reset_env(key, self.inner(params))
        return self.observe(obs, params), state

    def step_env(self, key: jax.Array, state: PyTree, action: jax.Array, params: PyTree) -> tuple:
        """Step without a reset, see gymnax."""
        obs, state, reward, terminated, info = self.env.step_env(
            key, state, action, self.inner(params)
        )
        obs, reward = self.observe(obs, params), self.rewarded(reward, params)
        return obs, state, reward, terminated, info

    def is_truncated(self, state: PyTree, params: PyTree) -> jax.Array:
        """Whether the time limit is reached."""
        return self.env.is_truncated(state, self.inner(params))

    def is_terminated(self, state: PyTree, params: PyTree) -> jax.Array:
        """Whether the state is terminal."""
        return self.env.is_terminated(state, self.inner(params))

    def observation_space(self, params: PyTree) -> Any:
        """The wrapped environment's observation space."""
        return self.env.observation_space(self.inner(params))

    def action_space(self, params: PyTree = None) -> Any:
        """The wrapped environment's action space."""
        return self.env.action_space(None if params is None else self.inner(params))


class Parameterised(Adapter):
    """An adapter with parameters of its own, next to the wrapped environment's in `env`."""

    def inner(self, params: PyTree) -> Any:
        """Return the wrapped environment's parameters."""
        return params.env

    def with_inner(self, params: PyTree, inner: PyTree) -> Any:
        """Return parameters with others of the wrapped environment."""
        return params.replace(env=inner)
