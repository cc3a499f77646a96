"""The environments of the comparisons as vectors of Gymnasium's: NumPy, no compilation."""

import importlib
import logging
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit


class MinAtar(gymnasium.Env):
    """The minatar package's game as gymnax has it: no sticky actions, no actions without effect."""

    def __init__(self, game: str):
        logging.disable(logging.WARNING)  # it imports seaborn for drawing
        try:
            module = importlib.import_module("minatar")
        finally:
            logging.disable(logging.NOTSET)
        self.game = module.Environment(game, sticky_action_prob=0.0)
        self.actions = self.game.minimal_action_set()
        self.action_space = spaces.Discrete(len(self.actions))
        self.observation_space = spaces.Box(0.0, 1.0, self.game.state_shape(), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.reset()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step, see Gymnasium."""
        reward, terminated = self.game.act(self.actions[action])
        return self._observation(), float(reward), terminated, False, {}

    def _observation(self) -> np.ndarray:
        return self.game.state().astype(np.float32)


def _maker(name: str) -> Callable[[], gymnasium.Env]:
    """Return a function that builds one environment with flat observations."""
    if name == "Doors":
        module = importlib.import_module("purerl.envs.doors_gym")
        return lambda: FlattenObservation(module.DoorsGym())
    if name == "Breakout-MinAtar":
        return lambda: FlattenObservation(TimeLimit(MinAtar("breakout"), 1000))
    return lambda: gymnasium.make(name, disable_env_checker=True)


def make_vector(
    name: str,
    num_envs: int,
    kind: Literal["sync", "async"] = "sync",
    context: str | None = None,
) -> VectorEnv:
    """Return environments stepped together, reset in the step that ends an episode.

    Args:
        name: of the environment.
        num_envs: how many.
        kind: stepped one after another, or each in its own process.
        context: how the processes start.
    """
    makers, mode = [_maker(name)] * num_envs, AutoresetMode.SAME_STEP
    if kind == "sync":
        return SyncVectorEnv(makers, autoreset_mode=mode)
    return AsyncVectorEnv(makers, autoreset_mode=mode, context=context)
