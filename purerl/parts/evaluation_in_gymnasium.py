"""Evaluate a trained policy in Gymnasium's environments, as a check of gymnax's."""

import math
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl import acting
from purerl.types import Learner, PyTree


def make_in_gymnasium(name: str) -> gymnasium.Env:
    """Return the environment that Gymnasium has under the name of one of `purerl.envs`.

    Raises:
        ValueError: if there is none.
    """
    try:
        return gymnasium.make("FrozenLake-v1" if name == "FrozenLake-misc" else name)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"Gymnasium has no environment {name!r}: {error}") from error


def evaluate_in_gymnasium(
    learner: Learner,
    policy: PyTree,
    name: str,
    *,
    num_episodes: int = 20,
    seed: int = 0,
    greedy: bool = True,
) -> np.ndarray:
    """Play episodes in the Gymnasium environment of this name: NumPy, one process.

    An independent check: it does not use the environment that the agent was trained in.

    Returns:
        undiscounted returns [num_episodes].

    Raises:
        ValueError: if Gymnasium has no environment of this name, or if its observations are not
            of the size that the agent knows.
    """
    env = make_in_gymnasium(name)
    spaces: Any = gymnasium.spaces
    obs_space: Any = env.observation_space
    own_space = learner.env.observation_space(learner.env.default_params)
    tabular = hasattr(own_space, "n")
    obs_shape = (own_space.n,) if tabular else own_space.shape
    if spaces.flatdim(obs_space) != math.prod(obs_shape):
        raise ValueError(
            f"Gymnasium's {name} has observations of size {spaces.flatdim(obs_space)}, "
            f"the agent's are of shape {tuple(obs_shape)}"
        )

    def seen(obs: Any) -> np.ndarray:
        if tabular:
            return np.asarray(obs, np.int32)
        features = spaces.flatten(obs_space, obs)  # makes a discrete observation one-hot
        return np.asarray(features, np.float32).reshape(obs_shape)

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
