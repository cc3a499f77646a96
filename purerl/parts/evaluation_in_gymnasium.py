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
    obs_shape = (own_space.n,) if tabular else tuple(own_space.shape)
    if (size := spaces.flatdim(obs_space)) != math.prod(obs_shape):
        raise ValueError(
            f"Gymnasium's {name} has observations of size {size}, the agent's are of shape "
            f"{obs_shape}"
        )

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
            if not tabular:  # a discrete observation becomes one-hot
                obs = np.float32(spaces.flatten(obs_space, obs)).reshape(obs_shape)
            chosen, memory = act(memory, act_key, np.asarray(obs))
            action: Any = np.asarray(chosen)[()]
            obs, reward, terminated, truncated, _ = env.step(action)
            returns[episode] += reward
            done = terminated or truncated
    env.close()
    return returns
