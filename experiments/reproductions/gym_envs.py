"""The environments of the comparisons as vectors of Gymnasium's: NumPy, no compilation."""

import importlib
from collections.abc import Callable
from typing import Literal

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit


def _maker(name: str) -> Callable[[], gymnasium.Env]:
    """Return a function that builds one environment with flat observations."""
    if name == "Breakout-MinAtar":  # as gymnax has it: no sticky actions, none without effect
        minatar = importlib.import_module("minatar.gym")
        game = {"use_minimal_action_set": True, "sticky_action_prob": 0.0}
        return lambda: FlattenObservation(TimeLimit(minatar.BaseEnv("breakout", **game), 1000))
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
