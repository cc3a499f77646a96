"""How well a trained policy does: here in JAX, or in Gymnasium's own environments as a check."""

import importlib
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.fast.threefry import unrolled
from purerl.types import Learner


def mean_return(episodes: Any) -> jax.Array:
    """Return the mean return of the finished episodes in `EpisodeSums`; NaN where none finished.

    Fields of shape [...] are added up over all axes.
    """
    count = jnp.sum(episodes.episodes)
    return jnp.where(count > 0, jnp.sum(episodes.returns) / jnp.maximum(count, 1.0), jnp.nan)


def evaluate(
    learner: Learner,
    policy: Any,
    key: jax.Array,
    env_params: Any,
    *,
    num_episodes: int = 32,
    greedy: bool = True,
) -> jax.Array:
    """Play episodes in parallel, each from its own reset to its first end.

    Returns:
        their undiscounted returns [num_episodes].
    """
    env = learner.env
    reset_key, key = jax.random.split(unrolled(key))
    reset_keys = jax.random.split(reset_key, num_episodes)
    obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(reset_keys, env_params)

    def act(key, obs):
        return learner.act(policy, key, obs, greedy=greedy, env_params=env_params)

    def unfinished(carry):
        return jnp.any(carry[3])

    def step(carry):
        key, obs, env_state, running, returns = carry
        key, act_key, env_key = jax.random.split(key, 3)
        act_keys = jax.random.split(act_key, num_episodes)
        env_keys = jax.random.split(env_key, num_episodes)
        action = jax.vmap(act)(act_keys, obs)
        obs, env_state, reward, terminated, truncated, _ = jax.vmap(
            env.step, in_axes=(0, 0, 0, None)
        )(env_keys, env_state, action, env_params)
        returns += jnp.where(running, reward.astype(jnp.float32), 0.0)
        running = running & ~(terminated | truncated)
        return key, obs, env_state, running, returns

    start = key, obs, env_state, jnp.ones(num_episodes, bool), jnp.zeros(num_episodes)
    return jax.lax.while_loop(unfinished, step, start)[4]


GYMNASIUM_NAMES = {
    "GridWorld": "purerl/GridWorld-v0",
    "Doors": "purerl/DoorsNumPy-v0",
    "FrozenLake-misc": "FrozenLake-v1",
}
"""Environments that Gymnasium knows by another name."""


def gymnasium_name(name: str) -> str:
    """Return the name by which Gymnasium knows an environment of `purerl.envs`."""
    return GYMNASIUM_NAMES.get(name, name)


def evaluate_in_gymnasium(
    learner: Learner,
    policy: Any,
    name: str,
    *,
    num_episodes: int = 20,
    seed: int = 0,
    greedy: bool = True,
    env_kwargs: dict[str, Any] | None = None,
) -> np.ndarray:
    """Play episodes in the Gymnasium environment of this name: NumPy, one process.

    An independent check: nothing of the environment that the agent was trained in takes part
    (except in GridWorld, whose Gymnasium version is an adapter around ours). `env_kwargs` are
    arguments for `gymnasium.make`.

    Returns:
        undiscounted returns [num_episodes].

    Raises:
        ValueError: if Gymnasium has no environment of this name, or if its observations are not
            of the size that the agent knows.
    """
    gymnasium = importlib.import_module("gymnasium")
    importlib.import_module("purerl.envs")  # registers purerl/DoorsNumPy-v0, purerl/GridWorld-v0
    try:
        env = gymnasium.make(gymnasium_name(name), **(env_kwargs or {}))
    except (gymnasium.error.Error, TypeError) as error:
        raise ValueError(f"Gymnasium has no environment {name!r}: {error}") from error
    spaces, obs_space = gymnasium.spaces, env.observation_space
    own_space = learner.env.observation_space(learner.env.default_params)
    tabular = hasattr(own_space, "n")
    index = getattr(learner.env, "index", None)  # of a StateIndex: from an observation to a number
    if index is not None:
        obs_shape = obs_space.shape
    else:
        obs_shape = (own_space.n,) if tabular else own_space.shape
    if spaces.flatdim(obs_space) != math.prod(obs_shape):
        raise ValueError(
            f"Gymnasium's {name} has observations of size {spaces.flatdim(obs_space)}, "
            f"the agent's are of shape {tuple(obs_shape)}"
        )
    act = jax.jit(lambda key, obs: learner.act(policy, key, obs, greedy=greedy))
    key = jax.random.key(seed)
    returns = np.zeros(num_episodes)
    for episode in range(num_episodes):
        obs, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            key, act_key = jax.random.split(key)
            features = spaces.flatten(obs_space, obs)  # makes a discrete observation one-hot
            features = np.asarray(features, np.float32).reshape(obs_shape)
            if index is not None:
                seen = np.asarray(index(features), np.int32)
            else:
                seen = np.asarray(obs, np.int32) if tabular else features
            action = np.asarray(act(act_key, seen))
            obs, reward, terminated, truncated, _ = env.step(
                int(action) if action.ndim == 0 else action
            )
            returns[episode] += reward
            done = terminated or truncated
    env.close()
    return returns
