"""Reinforcement-learning algorithms: one file each, with one pure JAX function for training.

    from purerl import envs, ppo
    env, env_params = envs.make("CartPole-v1")
    train = ppo.make_train(ppo.Config(), env)

`purerl.types` is the glossary. Learners consist of `parts`; `fast` has faster equivalents of JAX's
functions. The package does not depend on evolution.
"""

import importlib
from typing import Any

__all__ = ["dqn", "envs", "lpg", "ppo", "pqn", "q_learning", "sac", "types"]


def __getattr__(name: str) -> Any:
    """Import a module at its first use."""
    if name in __all__:
        return importlib.import_module(f"purerl.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
