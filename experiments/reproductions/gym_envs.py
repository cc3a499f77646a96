"""The environments of the comparisons as vectors of Gymnasium's: NumPy, no compilation."""

import importlib
import logging
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv


class MinAtar(gymnasium.Env):
    """The minatar package's game under the rules of gymnax's: no sticky actions, 1000 steps.

    Observations are flat, and actions without effect are left out.
    """

    def __init__(self, game: str, max_steps_in_episode: int = 1000):
        logging.disable(logging.WARNING)  # it imports seaborn for drawing
        try:
            module = importlib.import_module("minatar")
        finally:
            logging.disable(logging.NOTSET)
        self.game = module.Environment(game, sticky_action_prob=0.0)
        self.actions = self.game.minimal_action_set()
        self.action_space = spaces.Discrete(len(self.actions))
        size = int(np.prod(self.game.state_shape()))
        self.observation_space = spaces.Box(0.0, 1.0, (size,), np.float32)
        self.limit, self.time = max_steps_in_episode, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.reset()
        self.time = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step, see Gymnasium."""
        reward, terminated = self.game.act(self.actions[action])
        self.time += 1
        return self._observation(), float(reward), terminated, self.time >= self.limit, {}

    def _observation(self) -> np.ndarray:
        return self.game.state().astype(np.float32).ravel()


class FlatDoors(gymnasium.ObservationWrapper):
    """The NumPy Doors with its planes as one vector."""

    def __init__(self, **arguments: Any):
        module = importlib.import_module("purerl.envs.doors_gym")
        super().__init__(module.DoorsGym(**arguments))
        size = int(np.prod(self.env.observation_space.shape or ()))
        self.observation_space = spaces.Box(0.0, 1.0, (size,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Flatten the planes."""
        return observation.ravel()


def maker(name: str, **arguments: Any) -> Callable[[], gymnasium.Env]:
    """Return a function that builds one environment; only Doors takes arguments."""
    if name == "Doors":
        return lambda: FlatDoors(**arguments)
    if name == "Breakout-MinAtar":
        return lambda: MinAtar("breakout")
    return lambda: gymnasium.make(name, disable_env_checker=True)


def make_vector(
    name: str,
    num_envs: int,
    kind: Literal["sync", "async"] = "sync",
    context: str | None = None,
    **arguments: Any,
) -> VectorEnv:
    """Return `num_envs` environments stepped together, reset in the step that ends an episode."""
    makers, mode = [maker(name, **arguments)] * num_envs, AutoresetMode.SAME_STEP
    if kind == "sync":
        return SyncVectorEnv(makers, autoreset_mode=mode)
    return AsyncVectorEnv(makers, autoreset_mode=mode, context=context)


def final_observations(next_obs: np.ndarray, done: np.ndarray, infos: dict[str, Any]) -> np.ndarray:
    """Return the observations after the actions, before any reset [N, ...]."""
    if not done.any():
        return next_obs
    final = next_obs.copy()
    for index in np.flatnonzero(done):
        final[index] = infos["final_obs"][index]
    return final
