"""Reinforcement-learning algorithms, each of them one file and its training one pure JAX function.

    from purerl import envs, ppo
    env, env_params = envs.make("CartPole-v1")
    train = ppo.make_train(ppo.Config(), env)

`purerl.types` is the glossary; learners are made of `parts`, and `fast` is what computes the same
faster. The package knows nothing of evolution.
"""

import importlib
from typing import Any

__all__ = ["dqn", "envs", "lpg", "ppo", "q_learning", "types"]


def __getattr__(name: str) -> Any:
    """Import a module when it is first asked for: `purerl.envs` starts JAX's backend."""
    if name in __all__:
        return importlib.import_module(f"purerl.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
