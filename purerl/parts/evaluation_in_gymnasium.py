"""Evaluate a trained policy in Gymnasium's environments, as a check of gymnax's."""

import math
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl import (
    acting,
    envs,  # noqa: F401 - registers purerl/DoorsNumPy-v0 and purerl/GridWorld-v0
)
from purerl.types import Learner, PyTree

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
    policy: PyTree,
    name: str,
    *,
    num_episodes: int = 20,
    seed: int = 0,
    greedy: bool = True,
    env_kwargs: dict[str, Any] | None = None,
) -> np.ndarray:
    """Play episodes in the Gymnasium environment of this name: NumPy, one process.

    An independent check: it does not use the environment that the agent was trained in (except for
    GridWorld, where the Gymnasium version is an adapter around ours). `env_kwargs` are
    arguments for `gymnasium.make`.

    Returns:
        undiscounted returns [num_episodes].

    Raises:
        ValueError: if Gymnasium has no environment of this name, or if its observations are not
            of the size that the agent knows.
    """
    try:
        env = gymnasium.make(gymnasium_name(name), **(env_kwargs or {}))
    except (gymnasium.error.Error, TypeError) as error:
        raise ValueError(f"Gymnasium has no environment {name!r}: {error}") from error
    spaces: Any = gymnasium.spaces
    obs_space: Any = env.observation_space
    own_space = learner.env.observation_space(learner.env.default_params)
    index = getattr(learner.env, "index", None)  # of a StateIndex: from an observation to a number
    tabular = hasattr(own_space, "n") and index is None
    obs_shape = obs_space.shape if index is not None else own_space.shape
    if tabular:
        obs_shape = (own_space.n,)
    if spaces.flatdim(obs_space) != math.prod(obs_shape):
        raise ValueError(
            f"Gymnasium's {name} has observations of size {spaces.flatdim(obs_space)}, "
            f"the agent's are of shape {tuple(obs_shape)}"
        )

    def seen(obs: Any) -> np.ndarray:
        if tabular:
            return np.asarray(obs, np.int32)
        features = spaces.flatten(obs_space, obs)  # makes a discrete observation one-hot
        features = np.asarray(features, np.float32).reshape(obs_shape)
        return features if index is None else np.asarray(index(features), np.int32)

    @jax.jit
    def act(memory, key, obs):
        return acting.act(learner, policy, memory, key, obs, greedy=greedy)

    key = jax.random.key(seed)
    returns = np.zeros(num_episodes)
    for episode in range(num_episodes):
        obs, _ = env.reset(seed=seed + episode)
        done, memory = False, acting.begin(learner)
        while not done:
            key, act_key = jax.random.split(key)
            chosen, memory = act(memory, act_key, seen(obs))
            action = np.asarray(chosen)
            obs, reward, terminated, truncated, _ = env.step(
                int(action) if action.ndim == 0 else action
            )
            returns[episode] += reward
            done = terminated or truncated
    env.close()
    return returns
